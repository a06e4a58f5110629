//! The routes of the console.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::console::Console;
use crate::{assets, guard, live, pages};

impl Console {
    /// Returns the routes of all pages, behind the guard.
    pub fn router(&self) -> Router {
        // Without the permission to change something, these routes do not exist.
        let (run, changing) = if self.runs().is_some() {
            let changing = Router::new()
                .route("/run/stop", post(pages::run::stop))
                .route("/run/resume", post(pages::run::resume))
                .route("/unmask", get(pages::unmask::ask).post(pages::unmask::show));
            (get(pages::run::show).post(pages::run::start), changing)
        } else {
            (get(pages::run::show).fallback(pages::not_found), Router::new())
        };
        Router::new()
            .route("/", get(pages::health::show))
            .route("/calls", get(pages::calls::show))
            .route("/call", get(pages::call::show))
            .route("/events", get(pages::events::show))
            .route("/event", get(pages::event::show))
            .route("/search", get(pages::search::show).post(pages::search::find))
            .route("/repair", get(pages::repair::show))
            .route("/plan", get(pages::plan::show).post(pages::plan::make))
            .route("/run", run)
            .merge(changing)
            .route("/dials", get(pages::dials::show))
            .route("/dials/do-not-call", post(pages::dials::check_number))
            .route("/live", get(live::stream))
            .route("/try", get(pages::playground::show).post(pages::playground::act))
            .route("/assets/{hash}/{name}", get(assets::serve))
            .fallback(pages::not_found)
            .layer(from_fn_with_state(self.clone(), guard::check))
            .with_state(self.clone())
    }
}
