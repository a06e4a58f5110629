//! Checks of the style sheet and the scripts: sizes, contrast, and hues under colour blindness.

use std::collections::BTreeMap;

use super::*;

/// Most bytes of the style sheet, and of the scripts that every page loads. A list page with both stays below 62 KB.
const CSS_MAX: usize = 22 * 1024;
const JAVASCRIPT_MAX: usize = 17 * 1024;
/// Scripts that every page loads.
const EVERY_PAGE: [&str; 2] = ["keys.js", "live.js"];

/// Linear red, green and blue.
type Colour = [f64; 3];

/// Simulations of colour blindness in linear colours, after Machado, Oliveira and Fernandes (2009), full severity.
const VISIONS: [(&str, [[f64; 3]; 3]); 3] = [
    (
        "protan",
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
    ),
    (
        "deutan",
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
    ),
    (
        "tritan",
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_900]],
    ),
];

fn style() -> &'static str {
    let style = ASSETS.iter().find(|asset| asset.name == "console.css").unwrap();
    std::str::from_utf8(style.content).unwrap()
}

/// Colours of the light theme and of the dark one, by the names of their tokens.
fn themes() -> [BTreeMap<String, Colour>; 2] {
    let mut themes = [BTreeMap::new(), BTreeMap::new()];
    for line in style().lines() {
        let Some((name, value)) = line.trim().strip_prefix("--").and_then(|rest| rest.split_once(": ")) else {
            continue;
        };
        let value = value.trim_end_matches(';');
        let both = value.strip_prefix("light-dark(").and_then(|rest| rest.strip_suffix(')'));
        let Some((light, dark)) = both.and_then(|both| both.split_once(", ")).or(Some((value, value))) else {
            continue;
        };
        for (theme, text) in themes.iter_mut().zip([light, dark]) {
            if let Some(colour) = colour(text) {
                theme.insert(name.to_owned(), colour);
            }
        }
    }
    themes
}

fn colour(text: &str) -> Option<Colour> {
    let number = u32::from_str_radix(text.strip_prefix('#')?, 16).ok()?;
    Some([16, 8, 0].map(|shift| {
        let value = f64::from((number >> shift) & 0xff) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }))
}

fn luminance([red, green, blue]: Colour) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Contrast ratio of the WCAG.
fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn lab([red, green, blue]: Colour) -> [f64; 3] {
    let white = [0.950_47, 1.0, 1.088_83];
    let xyz = [
        0.412_456 * red + 0.357_576 * green + 0.180_438 * blue,
        0.212_673 * red + 0.715_152 * green + 0.072_175 * blue,
        0.019_334 * red + 0.119_192 * green + 0.950_304 * blue,
    ];
    let [x, y, z] = [0, 1, 2].map(|index| {
        let part: f64 = xyz[index] / white[index];
        if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 }
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn seen(vision: &[[f64; 3]; 3], colour: Colour) -> Colour {
    vision.map(|row| row.iter().zip(colour).map(|(factor, part)| factor * part).sum::<f64>().clamp(0.0, 1.0))
}

#[test]
fn text_and_graphics_have_contrast_in_both_themes() {
    for theme in themes() {
        let on = |name: &str, grounds: &[&str], least: f64| {
            for ground in grounds {
                let ratio = contrast(theme[name], theme[*ground]);
                assert!(ratio >= least, "{name} on {ground}: {ratio:.2}");
            }
        };
        let grounds = ["canvas", "surface", "sunken"];
        for text in ["text", "muted", "accent", "ok", "applied", "watch", "act", "quiet", "strong"] {
            on(text, &grounds, 4.5);
        }
        on("control", &grounds, 3.0);
        on("on-accent", &["accent"], 4.5);
        on("on-band", &["band-local", "band-deployed", "band-changes"], 4.5);
    }
}

#[test]
fn hues_of_dispositions_stay_apart_under_colour_blindness() {
    let hues = ["applied", "watch", "act", "quiet", "strong"];
    for theme in themes() {
        for (vision, matrix) in &VISIONS {
            for (index, one) in hues.iter().enumerate() {
                for other in &hues[index + 1..] {
                    let [one_lab, other_lab] = [one, other].map(|name| lab(seen(matrix, theme[*name])));
                    let squares = one_lab.iter().zip(other_lab).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance >= 14.0, "{one} and {other}, {vision}: {distance:.1}");
                }
            }
        }
    }
}

#[test]
fn colours_are_named_once() {
    let rules = style().split_once("/* Page */").unwrap().1;
    let named: Vec<&str> = rules.split(['{', '}', ';']).filter(|rule| rule.contains(": #")).collect();
    assert_eq!(named, Vec::<&str>::new(), "use a token");
}

#[test]
fn assets_keep_to_their_budget() {
    assert!(style().len() <= CSS_MAX, "style sheet: {} bytes", style().len());
    let scripts = ASSETS.iter().filter(|asset| EVERY_PAGE.contains(&asset.name));
    let size: usize = scripts.map(|asset| asset.content.len()).sum();
    assert!(size <= JAVASCRIPT_MAX, "scripts: {size} bytes");
    // A script of one page is at most half as large as those of every page.
    let of_one_page = |asset: &&Asset| asset.name.ends_with(".js") && !EVERY_PAGE.contains(&asset.name);
    for asset in ASSETS.iter().filter(of_one_page) {
        assert!(asset.content.len() <= JAVASCRIPT_MAX / 2, "{}: {} bytes", asset.name, asset.content.len());
    }
}
