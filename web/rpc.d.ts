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
  /** A call that waits for the operator; it is asked in the node page, never in the chat. */
  pending?: { id: string; tool: string; arguments: unknown; expires_in_ms: number };
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
  /** The device, or `host:port`. */
  port?: string | null;
  my_node: string | null;
  owner: string;
  fingerprint: string | null;
  firmware: string;
  /** What is wrong with the firmware. */
  firmware_note?: string | null;
  region: string;
  modem: string;
  frequency_mhz?: number | null;
  role?: string | null;
  /** Everything is sent in the clear. */
  licensed?: boolean;
  warnings: string[];
  turns_running: number;
  turns_waiting: number;
  parts_waiting: number;
  kept_answers: number;
  /** Distress texts that nobody has cleared. */
  distress?: number;
  airtime: Airtime;
  /** Did the operator stop all answers? */
  stopped?: boolean;
  /** Another radio than the last one; it is not used until the operator accepts it. */
  refused_radio?: { fingerprint: string; owner: string; node: string } | null;
}

/** A row of `mesh.distress`, the newest first. */
export interface Distress {
  id: string;
  at: number;
  first_at: number;
  times: number;
  node: string;
  name: string;
  assurance: string;
  fingerprint: string | null;
  /** The contact whose number it came under, without that contact's key. */
  claims: string | null;
  channel: string | null;
  mqtt: boolean;
  text: string;
  /** When a person cleared it. */
  seen_at: number | null;
  snr: number | null;
  hops: number | null;
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
  /** dB, of an incoming text. */
  snr?: number | null;
  /** dBm, of an incoming text. */
  rssi?: number | null;
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
  /** dBm */
  rssi?: number | null;
  hops: number | null;
  battery: number | null;
}

export interface Contact {
  id: string;
  name: string;
  fingerprint: string | null;
  /** `configured`, `confirmed`, `unconfirmed` or `none` */
  pin: string;
  foreign_fingerprint: string | null;
  /** `null` for viewers. */
  grants: string[] | null;
  /** `configuration` or `node`: only the latter can be removed here. */
  source?: string;
  suspended?: boolean;
  /** Refused, by its number or its key. */
  denied?: boolean;
  /** The pinned key, in base64: with `key:` before it, its name among the callers of the grants. */
  key?: string | null;
  /** Questions in the rolling hour, and how many there may be. */
  queries?: { used: number; limit: number | null } | null;
}

export interface Leg {
  name: string;
  /** `ready`, `failing`, `resting`, `unconfigured` or `unavailable` */
  state: string;
  reason?: string | null;
  /** Seconds until it is asked again. */
  rests_for_s?: number | null;
  /** What its last answers took, in the middle. */
  median_ms?: number | null;
}

/** What left for a cloud in the last 24 hours. */
export interface CloudUse {
  requests_24h: number;
  bytes_24h: number;
  last: { at: number; turn_id: string; leg: string; bytes: number; content: string[] } | null;
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
  openai_configured?: boolean;
  /** The local model that is asked, and where that stands: `configuration` or `node`. */
  model?: { name: string; source: string } | null;
  cloud?: CloudUse | null;
  /** Who is refused, and where that stands: what stands in the configuration can't be taken back here. */
  denied?: { asker: string; source: string }[];
  /** The open pairing, without its code. */
  pairing?: { name: string; expires_in_s: number; tries_left: number } | null;
  /** What is odd about the contacts. */
  warnings?: string[];
}

/** A row of `assistant.pending`: a call that waits for a person. */
export interface Pending {
  id: string;
  caller: string;
  name: string;
  tool: string;
  category: string;
  arguments: unknown;
  /** Unix milliseconds. */
  asked_at: number;
  expires_in_ms: number;
  /** May the peer that asked confirm it too, with a code by radio? */
  code_for_peer: boolean;
}

/** A row of `assistant.grants-list`; times are Unix milliseconds. */
export interface CallerGrants {
  /** `operator` or `key:…` */
  caller: string;
  name: string;
  /** `default`, `configuration` or `grants.json` */
  source: string;
  in_force?: boolean;
  categories: { category: string; until?: number }[];
  /** `mode`: `always`, `ask` or `never` */
  tools: { tool: string; mode: string; until?: number }[];
  history: GrantChange[];
}

export interface GrantChange {
  at: number;
  by?: string;
  category?: string;
  granted?: boolean;
  tool?: string;
  mode?: string | null;
  until?: number;
}

/** A row of `assistant.list-tools`. */
export interface Tool {
  name: string;
  description: string;
  category: string;
  destructive: boolean;
  granted: boolean;
}

/** A row of `assistant.ledger`. */
export interface LedgerCall {
  at: number;
  turn_id: string;
  caller: string;
  tool: string;
  category: string | null;
  outcome: string;
  millis: number;
}

/** A row of `auth.sessions`; times are Unix milliseconds. */
export interface Session {
  id: string;
  role: string;
  since: number;
  last_seen: number;
  address: string | null;
  current: boolean;
}

/** A row of `system.log`, and an event `log`. */
export interface LogLine {
  seq: number;
  at: number;
  /** `ERROR`, `WARN` or `INFO`, in any case */
  level: string;
  target: string;
  message: string;
}

/** A row of `mesh.history`: one hour. */
export interface HistoryHour {
  /** Unix milliseconds. */
  from: number;
  /** Own sending, milliseconds. */
  own_ms: number;
  /** Channel use, where the radio says so. */
  channel_percent?: number | null;
  answered: number;
  refused: number;
}

/** An event `mesh`: what happened, when. `event` says which of the fields are there. */
export interface MeshEvent {
  event: string;
  at: number;
  [field: string]: unknown;
}

/** `system.info` */
export interface SystemInfo {
  version: string;
  uptime_s: number;
  data_dir: string;
  storage?: { data_bytes: number; free_bytes: number | null } | null;
  clock?: {
    /** `none`, `timesyncd`, `chrony`, `ntpd` or `kernel` */
    source: string;
    synchronised: boolean;
    /** Seconds by which the radio's clock is ahead. */
    radio_drift_s: number | null;
  };
  /** The last one; `at` in Unix milliseconds. */
  backup?: { at: number; folder: string } | null;
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
