// A small function that does the least that a receiver of webhooks must do: verify, put and send. `make bench` compares
// ingress with it. It knows one provider, stores no compressed body, reads no event and logs nothing.
//
// With PEER_SENDER=sdk, the AWS SDK for JavaScript sends its requests. With PEER_SENDER=bare, it signs and sends them itself.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import http from "node:http";

const { AWS_LAMBDA_RUNTIME_API: api, INBOX_TABLE: table, QUEUE_URL: queue, RETELL_KEY: key } = process.env;
const [hostname, port] = api.split(":");
const agent = new http.Agent({ keepAlive: true });

function exchange(method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const sized = body === undefined ? headers : { ...headers, "content-length": Buffer.byteLength(body) };
    const request = http.request({ hostname, port, method, path, headers: sized, agent }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

const hmac = (secret, text) => createHmac("sha256", secret).update(text).digest();
const hash = (text) => createHash("sha256").update(text).digest("hex");

// Sends a request to an AWS service, with Signature Version 4.
async function sendSigned(service, target, request) {
  const { AWS_REGION: region, AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret, AWS_SESSION_TOKEN: token } = process.env;
  const body = JSON.stringify(request);
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const date = time.slice(0, 8);
  const headers = { host: api, "x-amz-date": time, "x-amz-security-token": token, "x-amz-target": target };
  const names = Object.keys(headers).join(";");
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
  const scope = `${date}/${region}/${service}/aws4_request`;
  const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${hash(`POST\n/\n\n${lines}\n${names}\n${hash(body)}`)}`;
  const signingKey = [date, region, service, "aws4_request"].reduce(hmac, `AWS4${secret}`);
  const signature = createHmac("sha256", signingKey).update(text).digest("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${id}/${scope}, SignedHeaders=${names}, Signature=${signature}`;
  const answer = await exchange("POST", "/", { ...headers, authorization, "content-type": "application/x-amz-json-1.0" }, body);
  if (answer.status !== 200) throw new Error(`${target}: ${answer.status} ${answer.body}`);
}

async function sender() {
  if (process.env.PEER_SENDER === "bare") {
    return {
      put: (request) => sendSigned("dynamodb", "DynamoDB_20120810.PutItem", request),
      send: (request) => sendSigned("sqs", "AmazonSQS.SendMessage", request),
    };
  }
  const { DynamoDBClient, PutItemCommand } = await import("@aws-sdk/client-dynamodb");
  const { SQSClient, SendMessageCommand } = await import("@aws-sdk/client-sqs");
  const [dynamodb, sqs] = [new DynamoDBClient({}), new SQSClient({})];
  return {
    put: (request) => dynamodb.send(new PutItemCommand(request)),
    send: (request) => sqs.send(new SendMessageCommand(request)),
  };
}

function isAuthentic(body, signature) {
  const [, at, digest] = /^v=(\d+),d=([0-9a-f]{64})$/.exec(signature ?? "") ?? [];
  if (at === undefined || Math.abs(Date.now() - Number(at)) > 300_000) return false;
  return timingSafeEqual(Buffer.from(digest, "hex"), hmac(key, body + at));
}

async function handle(event, { put, send }) {
  if (!isAuthentic(event.body, event.headers["x-retell-signature"])) return { statusCode: 401 };
  const { event: type, call } = JSON.parse(event.body);
  const eventId = `retell:${call.call_id}:${type}`;
  await put({
    TableName: table,
    Item: {
      event_id: { S: eventId },
      call_id: { S: call.call_id },
      received_at: { N: String(Date.now()) },
      body: { S: event.body },
    },
    ConditionExpression: "attribute_not_exists(event_id)",
  });
  await send({
    QueueUrl: queue,
    MessageBody: JSON.stringify({ event_id: eventId, type, call_id: call.call_id }),
    MessageGroupId: call.call_id,
    MessageDeduplicationId: eventId,
  });
  return { statusCode: 200, body: JSON.stringify({ status: "accepted", event_id: eventId }) };
}

const clients = await sender();
const runtime = "/2018-06-01/runtime/invocation";
for (;;) {
  const next = await exchange("GET", `${runtime}/next`, {});
  const answer = await handle(JSON.parse(next.body), clients);
  await exchange("POST", `${runtime}/${next.headers["lambda-runtime-aws-request-id"]}/response`, {}, JSON.stringify(answer));
}
