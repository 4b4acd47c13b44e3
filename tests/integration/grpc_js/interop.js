// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs every case of the interop matrix with @grpc/grpc-js and prints one JSON object of outcomes.
// Usage: node interop.js HOST:PORT DESCRIPTORS, where DESCRIPTORS is a file with a FileDescriptorSet.

'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const [address, descriptors] = process.argv.slice(2);
const definition = protoLoader.loadFileDescriptorSetFromBuffer(fs.readFileSync(descriptors), {
  keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true,
});
const { GRPCInferenceService } = grpc.loadPackageDefinition(definition).inference;

const unlimited = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };
const connect = (options) =>
  new GRPCInferenceService(address, grpc.credentials.createInsecure(), { ...unlimited, ...options });

const unary = (client, method, request, options = {}) =>
  new Promise((resolve, reject) => {
    client[method](request, new grpc.Metadata(), options, (error, answer) =>
      error ? reject(error) : resolve(answer));
  });

const int32s = (values) => Buffer.from(Int32Array.from(values).buffer);
const left = Array.from({ length: 16 }, (_, at) => at);
const addSub = () => ({
  model_name: 'add_sub',
  inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 16] })),
  raw_input_contents: [int32s(left), int32s(left.map(() => 3))],
});
const checkAddSub = (answer) =>
  assert.deepStrictEqual(answer.raw_output_contents[0], int32s(left.map((value) => value + 3)));
const identity = (bytes) => ({
  model_name: 'identity',
  inputs: [{ name: 'IN', datatype: 'UINT8', shape: [bytes.length] }],
  raw_input_contents: [bytes],
});
const words = (text) => ({
  model_name: 'words',
  inputs: [{
    name: 'text_input', datatype: 'BYTES', shape: [1], contents: { bytes_contents: [Buffer.from(text)] },
  }],
});
// A model that works until it is cancelled if asked for 1, and answers at once if asked for 0.
const patient = (waits) => ({
  model_name: 'patient',
  inputs: [{ name: 'WAIT', datatype: 'INT32', shape: [1] }],
  raw_input_contents: [int32s([waits])],
});

function stream(client, requests, { onMessage = () => {}, isOpen = false } = {}) {
  return new Promise((resolve, reject) => {
    const call = client.ModelStreamInfer();
    const messages = [];
    call.on('data', (message) => {
      messages.push(message);
      onMessage(call, messages);
    });
    call.on('error', reject);
    call.on('end', () => resolve(messages));
    requests.forEach((request) => call.write(request));
    if (!isOpen) call.end();
  });
}

const text = (message) => message.infer_response.raw_output_contents[0].subarray(4).toString();

const cases = {
  async unary(client) {
    for (let round = 0; round < 50; round++) checkAddSub(await unary(client, 'ModelInfer', addSub()));
  },
  async concurrent(client) {
    const answers = await Promise.all(Array.from({ length: 500 }, () => unary(client, 'ModelInfer', addSub())));
    answers.forEach(checkAddSub);
  },
  async connections() {
    const clients = Array.from({ length: 8 }, () => connect({ 'grpc.use_local_subchannel_pool': 1 }));
    const calls = clients.flatMap((each) => Array.from({ length: 20 }, () => unary(each, 'ModelInfer', addSub())));
    (await Promise.all(calls)).forEach(checkAddSub);
    clients.forEach((each) => each.close());
  },
  async large(client) {
    for (const size of [1, 65536, 1 << 20, 32 << 20]) {
      const bytes = Buffer.alloc(size, 'manta');
      const answer = await unary(client, 'ModelInfer', identity(bytes));
      assert.ok(answer.raw_output_contents[0].equals(bytes), `${size} bytes`);
    }
  },
  async compressed() {
    const client = connect({ 'grpc.default_compression_algorithm': 2 });
    const bytes = Buffer.alloc(1 << 20);
    const answer = await unary(client, 'ModelInfer', identity(bytes));
    assert.ok(answer.raw_output_contents[0].equals(bytes));
    client.close();
  },
  async serverStreaming(client) {
    const messages = await stream(client, [words('a b c d')]);
    assert.deepStrictEqual(messages.map(text), ['a', 'b', 'c', 'd']);
  },
  async bidi(client) {
    // Each request is written when the answer to the one before has come.
    const onMessage = (call, messages) =>
      messages.length < 20 ? call.write(words(`w${messages.length}`)) : call.end();
    const seen = (await stream(client, [words('w0')], { onMessage, isOpen: true })).map(text);
    assert.deepStrictEqual(seen, Array.from({ length: 20 }, (_, at) => `w${at}`));
  },
  async deadline(client) {
    const error = await unary(client, 'ModelInfer', patient(1), { deadline: Date.now() + 300 }).catch((e) => e);
    assert.strictEqual(error.code, grpc.status.DEADLINE_EXCEEDED);
    // The model has one instance: it answers again only if the deadline has ended the call in it.
    await unary(client, 'ModelInfer', patient(0));
  },
  async cancellation(client) {
    const error = await stream(client, [words('first')], { isOpen: true, onMessage: (call) => call.cancel() })
      .catch((e) => e);
    assert.strictEqual(error.code, grpc.status.CANCELLED);
  },
  async statuses(client) {
    const missing = await unary(client, 'ModelInfer', { ...addSub(), model_name: 'none' }).catch((e) => e);
    assert.strictEqual(missing.code, grpc.status.NOT_FOUND);
    assert.match(missing.details, /unknown model: 'none'/);
    const wrong = await unary(client, 'ModelInfer', { ...addSub(), raw_input_contents: [] }).catch((e) => e);
    assert.strictEqual(wrong.code, grpc.status.INVALID_ARGUMENT);
    checkAddSub(await unary(client, 'ModelInfer', addSub()));
  },
  async control(client) {
    assert.strictEqual((await unary(client, 'ServerReady', {})).ready, true);
    assert.strictEqual((await unary(client, 'ModelReady', { name: 'add_sub' })).ready, true);
    assert.strictEqual((await unary(client, 'ModelMetadata', { name: 'add_sub' })).inputs.length, 2);
  },
};

async function main() {
  const outcomes = {};
  for (const [name, run] of Object.entries(cases)) {
    const client = connect();
    try {
      await run(client);
      outcomes[name] = 'ok';
    } catch (error) {
      outcomes[name] = String(error.stack || error);
    }
    client.close();
  }
  process.stdout.write(JSON.stringify(outcomes));
}

main();
