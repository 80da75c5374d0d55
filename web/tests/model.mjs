/**
 * A model that says what a test told it to, and can be held up in the middle of a turn.
 *
 * Owns the script. Served in two ways: as an Ollama server to the real daemon, and directly to the mock.
 */

import { createServer } from 'node:http';

/** @typedef {{ text: string, tool?: string, args?: Record<string, unknown> }} Line what is said, after a call of the tool where there is one */

export class ScriptedModel {
  /** @type {Line[]} */
  #lines = [];
  /** @type {(() => void) | null} */
  #release = null;
  /** @type {Promise<void> | null} */
  #held = null;
  /** How often a turn was asked for, and how often one was broken off. */
  asked = 0;
  abandoned = 0;
  /** What the server has; the first is the configured default. */
  names = ['qwen2.5-coder:7b'];
  /** The model that was asked last. */
  last = '';
  /** The tools that it was offered then. @type {string[]} */
  offered = [];

  /**
   * Says this next; with nothing to say it says how it is.
   * @param {string} text
   * @param {{ tool?: string, args?: Record<string, unknown> }} [options]
   */
  say(text, options = {}) {
    this.#lines.push({ text, ...options });
  }

  /** From now on no answer comes, until `release`. */
  hold() {
    this.#held = new Promise((resolve) => (this.#release = resolve));
  }

  /** Forgets what was still to be said, and holds nothing up: for the next test. */
  reset() {
    this.#lines = [];
    this.release();
  }

  release() {
    this.#release?.();
    this.#held = null;
    this.#release = null;
  }

  /**
   * The next line, once it may be said; `null` when the asker went away.
   * @param {AbortSignal} gone
   * @returns {Promise<Line | null>}
   */
  async next(gone) {
    this.asked += 1;
    if (this.#held !== null) {
      await Promise.race([this.#held, new Promise((resolve) => gone.addEventListener('abort', resolve, { once: true }))]);
    }
    if (gone.aborted) {
      this.abandoned += 1;
      return null;
    }
    return this.#lines.shift() ?? { text: 'All is well.' };
  }
}

/**
 * Serves the model as Ollama does, on a free port of the loopback.
 * @param {ScriptedModel} model
 * @returns {Promise<{ url: string, stop: () => Promise<void> }>}
 */
export async function serveOllama(model) {
  const server = createServer(async (request, response) => {
    const gone = new AbortController();
    response.on('close', () => response.writableFinished || gone.abort());
    /** @type {Buffer[]} */
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : {};
    const answer = await ollama(model, request.url ?? '', body, gone.signal);
    response.writeHead(answer === null ? 404 : 200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(answer ?? { error: 'not found' }));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    stop: () => new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    }),
  };
}

/** The line that waits for the result of its tool. @type {WeakMap<ScriptedModel, Line>} */
const afterTool = new WeakMap();

/**
 * @param {ScriptedModel} model
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} gone
 */
async function ollama(model, path, body, gone) {
  const name = typeof body.model === 'string' ? body.model : '';
  switch (path) {
    case '/api/version': return { version: '0.12.0' };
    case '/api/tags': return { models: model.names.map((name) => ({ name, model: name, size: 4_700_000_000, details: { family: 'qwen2' } })) };
    case '/api/show': return { capabilities: ['completion', 'tools'], model_info: { 'general.architecture': 'qwen2', 'qwen2.context_length': 32768 } };
    case '/api/ps': return { models: [] };
    case '/api/chat': {
      model.last = name;
      model.offered = (body.tools ?? []).map((/** @type {any} */ tool) => String(tool.function?.name));
      const waiting = body.messages?.at(-1)?.role === 'tool' ? afterTool.get(model) : undefined;
      const line = waiting ?? (await model.next(gone));
      if (line === null) return null;
      const calls = waiting === undefined && line.tool !== undefined;
      if (calls) afterTool.set(model, line);
      else afterTool.delete(model);
      return {
        model: name,
        created_at: new Date().toISOString(),
        message: calls
          ? { role: 'assistant', content: '', tool_calls: [{ function: { name: line.tool, arguments: line.args ?? {} } }] }
          : { role: 'assistant', content: line.text },
        done: true,
        done_reason: 'stop',
        eval_count: 12,
        prompt_eval_count: 40,
      };
    }
    default: return null;
  }
}
