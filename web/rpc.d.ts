/**
 * The shapes of what the daemon answers over `/rpc`, and of what AIUI and the broker say to each other.
 *
 * Owns types only: nothing here is served. Mirrors `docs/rpc.schema.json`; a field that the pages can do
 * without is optional, so that an older daemon under a newer page is shown and not a crash.
 */

/** `auth.login`, `auth.setup`, `auth.whoami` */
export interface Credentials {
  csrf_token: string;
  role: string;
}

export interface ToolRecord {
  name: string;
  category: string | null;
  /** `ran`, `failed`, `unknown`, `denied`, `bad_arguments` or `needs_confirmation` */
  outcome: string;
}

export interface LegReason {
  leg: string;
  reason: string;
}

/** `assistant.chat`; `html` is rendered and sanitised by the daemon, and sanitised again here. */
export interface ChatResult {
  text: string;
  html?: string;
  turn_id: string;
  backend: string;
  tools: ToolRecord[];
  /** `answered`, `stopped` or `failed` */
  status?: string;
  reasons?: LegReason[];
}

/** One line of `assistant.history`, oldest first: a question or its answer. */
export interface HistoryEntry {
  /** `user` or `assistant` */
  role: string;
  turn_id: string;
  /** Unix milliseconds. */
  at: number;
  /** The question, or the answer in Markdown. */
  text: string;
  html?: string;
  status?: string;
  backend?: string;
  tools?: ToolRecord[];
}

/** `mesh.airtime`; every time is in milliseconds of sending, in the rolling hour. */
export interface Airtime {
  used_ms: number;
  limit_ms: number | null;
  share_ms: number | null;
  /** Percent. */
  channel_utilization: number | null;
  /** Percent. */
  air_util_tx: number | null;
  recovers_in_s: number;
  paused: string | null;
  notes: string[];
}

/** `mesh.status` */
export interface MeshStatus {
  connected: boolean;
  link: string;
  my_node: string | null;
  owner: string;
  fingerprint: string | null;
  firmware: string;
  region: string;
  modem: string;
  warnings: string[];
  turns_running: number;
  turns_waiting: number;
  parts_waiting: number;
  kept_answers: number;
  airtime: Airtime;
}

export interface Delivery {
  /** `queued`, `sent`, `relayed`, `delivered`, `not_confirmed`, `waiting`, `failed` or `cancelled` */
  state: string;
  reason?: string;
}

/** A row of `mesh.messages`, the newest last. */
export interface MeshMessage {
  /** Unix milliseconds. */
  at: number;
  /** `in` or `out` */
  direction: string;
  node: string;
  name: string;
  assurance: string;
  channel: string | null;
  text: string;
  delivery: Delivery | null;
  ignored: string | null;
  id: number;
}

/** A row of `mesh.nodes`. */
export interface MeshNode {
  node: string;
  long_name: string;
  short_name: string;
  fingerprint: string | null;
  contact: string | null;
  /** `pinned`, `unconfirmed`, `foreign_key`, `denied` or `stranger` */
  standing: string;
  /** Unix seconds, 0 for never. */
  last_heard: number;
  snr: number | null;
  hops: number | null;
  battery: number | null;
}

export interface Contact {
  id: string;
  name: string;
  fingerprint: string | null;
  /** `configured`, `unconfirmed` or `none` */
  pin: string;
  foreign_fingerprint: string | null;
  grants: string[];
}

export interface Leg {
  name: string;
  /** `ready`, `failing`, `resting` or `unavailable` */
  state: string;
  reason?: string | null;
}

/** `mesh.assistant-status` */
export interface AssistantStatus {
  enabled: boolean;
  trusted_only: boolean;
  allowed_contacts: Contact[];
  denied_askers: string[];
  trigger: string;
  channels: string[];
  ollama_detected: boolean;
  models: string[];
  claude_available: boolean;
  legs?: Leg[];
}

/** `system.disk-status`: each file system once, in bytes. */
export interface DiskStatus {
  disks: { path: string; total: number; available: number; used_percent: number }[];
}

/** What the frame may say. Nothing else is read; there is no field for a tool, a grant or a confirmation. */
export type FrameMessage =
  | { type: 'chat:request'; id: string; text: string }
  | { type: 'chat:stop'; id: string; request: string }
  | { type: 'chat:history'; id: string }
  | { type: 'chat:clear'; id: string };

/** What the broker answers. */
export interface BrokerResponse {
  type: 'chat:response';
  id: string;
  success: boolean;
  text?: string;
  error?: string;
  html?: string;
  backend?: string;
  status?: string;
  tools?: ToolRecord[];
  reasons?: LegReason[];
  entries?: HistoryEntry[];
  /** A question from before a reload that is still being answered, and under which id its answer will come. */
  running?: { request: string; text: string } | null;
}

/** An event `turn` of `/events`: what is being done for a question of this session. */
export interface TurnEvent {
  turn_id: string;
  /** `thinking`, `tool`, `leg` or `ended` */
  stage: string;
  /** The leg that is asked, or that answered. */
  leg?: string;
  tool?: string;
  category?: string;
  /** Of a tool that has ended; missing while it runs. */
  outcome?: string;
}

/** What is being done for a question, as the chat shows it. */
export interface Progress {
  /** A line for people. */
  note?: string;
  /** A tool that runs (`outcome` is null), or that has run. */
  tool?: { name: string; category: string | null; outcome: string | null };
}

/**
 * What the broker says in between. `delta` is a piece of the answer, the rest is [Progress]. Of stage `changed` (its id
 * is nobody's): the transcript has changed by itself, for instance by a call that was approved; ask for it again.
 */
export interface BrokerProgress extends Progress {
  type: 'chat:progress';
  id: string;
  stage: string;
  delta?: string;
}

/** An answer as the chat shows it. */
export interface Answer {
  text: string;
  html?: string;
  backend: string;
  status: string;
  tools: ToolRecord[];
  reasons: LegReason[];
}

/** The way from the chat to the assistant: through the broker, or through `/rpc` on a page of its own. */
export interface Transport {
  sendChat(text: string, onToken?: (token: string) => void, onProgress?: (progress: Progress) => void): Promise<Answer>;
  /** Ends the running question, model and tools too. */
  stop(): Promise<void>;
  /** `onProgress` is told of the question that is still being answered. */
  history(onProgress?: (progress: Progress) => void): Promise<{
    entries: HistoryEntry[];
    running: { text: string; answer: Promise<Answer> } | null;
  }>;
  clear(): Promise<void>;
  /** Called when the transcript has changed by itself: a call that waited was approved. */
  onChanged: () => void;
}
