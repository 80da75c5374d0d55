/**
 * The chat as it is seen: the log, the composer, and what is being waited for.
 *
 * Owns the DOM of the conversation. Knows no message format and no RPC: it has a transport.
 */

/** @import { Answer, HistoryEntry, Progress, Transport } from '../rpc.d.ts' */
import { byId } from './element.js';
import { answerEntry, errorEntry, questionEntry, toolCard } from './entry.js';
import { markdownOf, showExport } from './export.js';
import { legName } from './legs.js';
import { visibleName } from './untrusted.js';

/** Below this distance from the end, in pixels, the log follows what is new. */
const FOLLOW_PX = 80;
/** Tools of a running answer that are shown; a turn has few. */
const MAX_LIVE_TOOLS = 24;

export class ChatView {
  /** @type {Transport} */
  #transport;
  #log = byId('log', HTMLElement);
  #entries = byId('entries', HTMLElement);
  #greeting = byId('greeting', HTMLElement);
  #thinking = byId('thinking', HTMLElement);
  #state = byId('state', HTMLElement);
  #text = byId('text', HTMLTextAreaElement);
  #send = byId('send', HTMLButtonElement);
  #stop = byId('stop', HTMLButtonElement);
  #clear = byId('clear', HTMLButtonElement);
  #export = byId('export', HTMLButtonElement);
  #exported = byId('exported', HTMLElement);
  #tools = byId('thinking-tools', HTMLElement);
  /** The last question, for the answer's `Retry`. */
  #question = '';
  #leg = byId('leg', HTMLElement);
  #running = false;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #ticking;

  /**
   * @param {HTMLElement} root
   * @param {Transport} transport
   */
  constructor(root, transport) {
    this.#transport = transport;
    this.#send.addEventListener('click', () => this.#submit());
    this.#stop.addEventListener('click', () => this.#stopRunning());
    this.#clear.addEventListener('click', () => this.#clearLog());
    this.#clear.addEventListener('blur', () => this.#askToClear(false));
    this.#export.addEventListener('click', () => this.#showExport());
    this.#text.addEventListener('input', () => this.#grow());
    this.#text.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.#submit();
      }
    });
    transport.onChanged = () => void this.#refresh();
    root.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#running) void this.#stopRunning();
    });
    byId('suggestions', HTMLElement).addEventListener('click', (event) => {
      if (event.target instanceof HTMLButtonElement) {
        this.#text.focus();
        void this.#ask(event.target.textContent ?? '');
      }
    });
  }

  /** Puts the cursor into the composer. */
  focus() {
    this.#text.focus();
  }

  /** Shows the stored conversation, and goes on waiting for a question that was running. */
  async restore() {
    // What is old is not news: a screen reader is told only what comes after it.
    this.#log.setAttribute('aria-live', 'off');
    try {
      await this.#showTranscript();
    } catch (failure) {
      this.#showError(failure, null);
    } finally {
      requestAnimationFrame(() => this.#log.setAttribute('aria-live', 'polite'));
    }
  }

  /** Shows the transcript, and waits for the question that is still being answered. */
  async #showTranscript() {
    const { entries, running } = await this.#transport.history((progress) => this.#showProgress(progress));
    this.#entries.replaceChildren();
    for (const entry of entries) this.#showStored(entry);
    this.#greeting.hidden = entries.length > 0 || running !== null;
    this.#toEnd(true);
    if (running === null) return;
    this.#showQuestion(running.text, undefined);
    void this.#await(running.text, running.answer);
  }

  /** Shows what was added to the transcript without a question. While one is answered, its end does that. */
  async #refresh() {
    if (this.#running) return;
    try {
      await this.#showTranscript();
    } catch (failure) {
      this.#showError(failure, null);
    }
  }

  /** @param {HistoryEntry} entry */
  #showStored(entry) {
    if (entry.role === 'user') {
      this.#showQuestion(entry.text, entry.at);
    } else if (entry.role === 'assistant') {
      const { text, html, backend = '', status = 'answered', tools = [] } = entry;
      this.#showAnswer({ text, html, backend, status, tools, reasons: [] });
      this.#showLeg(backend);
    }
  }

  /**
   * @param {string} text
   * @param {number | undefined} at Unix milliseconds
   */
  #showQuestion(text, at) {
    this.#question = text;
    this.#entries.append(questionEntry(text, at, (again) => this.#edit(again)));
  }

  /** @param {Answer} answer */
  #showAnswer(answer) {
    const question = this.#question;
    this.#entries.append(answerEntry(answer, question === '' ? null : () => void this.#ask(question)));
  }

  /**
   * Puts a question into the composer. What stood there is not lost: it goes below.
   * @param {string} text
   */
  #edit(text) {
    const draft = this.#text.value.trim();
    this.#text.value = draft === '' || draft === text ? text : `${text}\n\n${draft}`;
    this.#grow();
    this.#text.focus();
    this.#text.setSelectionRange(text.length, text.length);
  }

  /** @param {Progress} progress */
  #showProgress({ note, tool }) {
    if (!this.#running) return;
    if (note !== undefined) byId('thinking-note', HTMLElement).textContent = visibleName(note, 80);
    if (tool === undefined) return;
    // A tool that has ended takes the place of the same one running.
    const runs = this.#tools.querySelector('.runs');
    if (runs !== null) runs.replaceWith(toolCard(tool));
    else if (this.#tools.childElementCount < MAX_LIVE_TOOLS) this.#tools.append(toolCard(tool));
  }

  async #showExport() {
    // To ask for the transcript is to begin anew: what runs would lose its way here.
    if (this.#running) {
      this.#state.textContent = 'Wait for the answer, then export.';
      return;
    }
    try {
      const { entries } = await this.#transport.history();
      if (entries.length === 0) {
        this.#state.textContent = 'There is nothing to export yet.';
        return;
      }
      const alone = window.parent === window;
      showExport(this.#exported, markdownOf(entries), alone, () => this.#export.focus());
    } catch (failure) {
      this.#showError(failure, null);
    }
  }

  #submit() {
    const text = this.#text.value.trim();
    if (text === '' || this.#running) return;
    this.#text.value = '';
    this.#grow();
    void this.#ask(text);
  }

  /** @param {string} text */
  async #ask(text) {
    if (this.#running) return;
    this.#greeting.hidden = true;
    this.#showQuestion(text, Date.now());
    this.#toEnd(true);
    const answer = this.#transport.sendChat(text, undefined, (progress) => this.#showProgress(progress));
    await this.#await(text, answer);
  }

  /**
   * @param {string} text the question
   * @param {Promise<Answer>} answer
   */
  async #await(text, answer) {
    this.#setRunning(true);
    try {
      const given = await answer;
      this.#showAnswer(given);
      this.#showLeg(given.backend);
      this.#state.textContent = given.status === 'stopped' ? 'Stopped.' : 'Answered.';
    } catch (failure) {
      this.#showError(failure, text);
    } finally {
      this.#setRunning(false);
      this.#toEnd(false);
    }
  }

  /**
   * @param {unknown} failure
   * @param {string | null} question what to ask again, if that would help
   */
  #showError(failure, question) {
    const line = failure instanceof Error ? failure.message : 'That did not work.';
    const again = question === null ? null : () => void this.#ask(question);
    this.#entries.append(errorEntry(line, again));
    this.#toEnd(false);
  }

  async #stopRunning() {
    if (!this.#running) return;
    byId('thinking-note', HTMLElement).textContent = 'Stopping';
    this.#text.focus();
    try {
      await this.#transport.stop();
    } catch (failure) {
      this.#showError(failure, null);
    }
  }

  async #clearLog() {
    if (this.#running) return;
    if (this.#clear.dataset.sure !== 'yes') {
      this.#askToClear(true);
      return;
    }
    this.#askToClear(false);
    try {
      await this.#transport.clear();
      this.#entries.replaceChildren();
      this.#greeting.hidden = false;
      this.#leg.textContent = '';
      this.#state.textContent = 'The conversation was deleted.';
    } catch (failure) {
      this.#showError(failure, null);
    }
    this.#text.focus();
  }

  /**
   * The second press deletes; a dialog is not to be had in a sandboxed frame.
   * @param {boolean} sure
   */
  #askToClear(sure) {
    this.#clear.dataset.sure = sure ? 'yes' : '';
    this.#clear.textContent = sure ? 'Delete it all?' : 'Clear';
    if (sure) this.#state.textContent = 'Press again to delete the whole conversation.';
  }

  /** @param {boolean} running */
  #setRunning(running) {
    this.#running = running;
    this.#thinking.hidden = !running;
    const hadFocus = document.activeElement === (running ? this.#send : this.#stop);
    this.#stop.hidden = !running;
    this.#send.hidden = running;
    if (hadFocus) (running ? this.#stop : this.#text).focus();
    clearInterval(this.#ticking);
    this.#tools.replaceChildren();
    if (!running) return;
    this.#state.textContent = 'Thinking.';
    byId('thinking-note', HTMLElement).textContent = 'Thinking';
    const time = byId('thinking-time', HTMLElement);
    const since = Date.now();
    time.textContent = '';
    this.#ticking = setInterval(() => {
      const seconds = Math.round((Date.now() - since) / 1000);
      if (seconds >= 3) time.textContent = `${seconds} s`;
    }, 1000);
    this.#toEnd(true);
  }

  /** @param {string | undefined} backend */
  #showLeg(backend) {
    if (backend) this.#leg.textContent = `last answer by ${legName(backend)}`;
  }

  #grow() {
    this.#text.style.height = 'auto';
    this.#text.style.height = `${Math.min(this.#text.scrollHeight + 2, 200)}px`;
  }

  /** @param {boolean} always also when the reader has scrolled up */
  #toEnd(always) {
    const fromEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight;
    const newest = this.#entries.lastElementChild;
    if (always || fromEnd < FOLLOW_PX + (newest?.clientHeight ?? 0)) this.#log.scrollTop = this.#log.scrollHeight;
  }
}
