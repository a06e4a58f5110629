// Sample receiver of domain events outside AWS: an HTTP server in Node that processes each event once. Copy it.
//
// It does the same as infra/receiver.py, whose comment explains the files, the environment variables and the responses. It needs Node 18
// or newer and no package.

import { createHash, timingSafeEqual } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const SCHEMA_VERSION = 1;
// Domain events have some hundred bytes, and EventBridge takes less than 1 MB.
const BODY_BYTES_MAX = 1024 * 1024;

for (const name of ['SWITCHHOOK_KEYS', 'EVENTS_FOLDER', 'PORT']) {
    if (!process.env[name]) {
        console.error(`the environment variable ${name} is missing`);
        process.exit(1);
    }
}

// An empty key would let everybody in, and a short one can be guessed.
const KEYS = process.env.SWITCHHOOK_KEYS.split(',').filter(Boolean);
if (KEYS.some((key) => key.length < 16)) {
    console.error('SWITCHHOOK_KEYS has a key of fewer than 16 characters: a comma separates two keys');
    process.exit(1);
}
const KEY_HEADER = (process.env.KEY_HEADER ?? 'x-switchhook-key').toLowerCase();
const RETRY_SECONDS = Number(process.env.RETRY_SECONDS ?? 60);
const WAITING = join(process.env.EVENTS_FOLDER, 'waiting');
const DONE = join(process.env.EVENTS_FOLDER, 'done');

const server = createServer((request, response) => {
    const chunks = [];
    let bytes = 0;
    request.on('data', (chunk) => {
        bytes += chunk.length;
        if (bytes <= BODY_BYTES_MAX) chunks.push(chunk);
    });
    request.on('end', () => {
        let status;
        try {
            status = receive(request, bytes, Buffer.concat(chunks));
        } catch (error) {
            console.error(`an event could not be stored: ${error.message}`);
            status = 500;
        }
        response.writeHead(status, { 'Content-Length': 0 }).end();
    });
});

function receive(request, bytes, body) {
    if (request.method !== 'POST') return 405;
    if (!isKey(request.headers[KEY_HEADER] ?? '')) return 401;
    if (bytes > BODY_BYTES_MAX) return 413;
    let event;
    try {
        event = JSON.parse(body);
    } catch {
        return 400;
    }
    if (typeof event?.id !== 'string' || event.schema_version === undefined) return 400;
    if (event.schema_version !== SCHEMA_VERSION) return 422;
    store(event.id, body);
    return 200;
}

// Compares with each key in constant time. The hashes have the same length, as the comparison requires.
function isKey(presented) {
    const hash = (text) => createHash('sha256').update(text).digest();
    return KEYS.map((key) => timingSafeEqual(hash(key), hash(presented))).includes(true);
}

// Nothing here waits, so no other request comes between the look for a file and the write.
function store(id, body) {
    const name = createHash('sha256').update(id).digest('hex');
    if (existsSync(join(DONE, name))) return;
    if (!existsSync(join(WAITING, name))) {
        // A reader must never see half of a file.
        const unfinished = join(WAITING, `${name}.new`);
        flushed(unfinished, 'w', (file) => writeFileSync(file, body));
        renameSync(unfinished, join(WAITING, name));
    }
    // The new name is on the disk only after this, which may have failed the first time.
    flushed(WAITING, 'r', () => {});
    setImmediate(workOff);
}

// Opens a file or a folder, changes it, and waits until it is on the disk.
function flushed(path, flags, change) {
    const file = openSync(path, flags);
    try {
        change(file);
        fsyncSync(file);
    } finally {
        closeSync(file);
    }
}

let isWorking = false;
let retry;

// Processes the events that wait, one after another, also those that arrive meanwhile.
async function workOff() {
    if (isWorking) return;
    isWorking = true;
    clearTimeout(retry);
    const failed = new Set();
    const next = () => readdirSync(WAITING).find((name) => !name.endsWith('.new') && !failed.has(name));
    for (let name = next(); name !== undefined; name = next()) {
        try {
            await work(JSON.parse(readFileSync(join(WAITING, name))));
            renameSync(join(WAITING, name), join(DONE, name));
        } catch (error) {
            console.error(`the work failed and will be done again: ${error.message}`);
            failed.add(name);
        }
    }
    isWorking = false;
    if (failed.size > 0) retry = setTimeout(workOff, RETRY_SECONDS * 1000);
}

// Replace this with your own work, for example to send a mail or to update another system. An exception repeats it later.
async function work(event) {
    console.log(event.type, event.id);
}

mkdirSync(WAITING, { recursive: true });
mkdirSync(DONE, { recursive: true });
workOff();
server.listen(Number(process.env.PORT), '127.0.0.1');
