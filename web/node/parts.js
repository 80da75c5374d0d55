/**
 * What the page knows of the node, part by part, and which event makes which part old.
 *
 * Owns the methods that are asked and how often. Asks nothing itself.
 */

/** @import { StreamState } from './stream.js' */
/** @import { AssistantStatus, CallerGrants, DiskStatus, Distress, HistoryHour, LedgerCall, LogLine, MeshEvent, MeshMessage, MeshNode, MeshStatus, Pending, Session, SystemInfo, Tool } from '../rpc.d.ts' */

/**
 * The last answers; `null` until there was one. `at` is when the daemon last gave a sign of life, by this machine's
 * clock, Unix milliseconds, 0 for never. Each part is a new object when it changed, and the same one when not.
 * @typedef {object} Snapshot
 * @property {number} at
 * @property {boolean} failing
 * @property {StreamState} stream
 * @property {MeshStatus | null} status
 * @property {AssistantStatus | null} assistant
 * @property {MeshMessage[] | null} messages
 * @property {MeshNode[] | null} nodes
 * @property {Distress[] | null} distress the newest first
 * @property {DiskStatus | null} disk
 * @property {(Pending & { until: number })[] | null} pending `until` is by this machine's clock
 * @property {CallerGrants[] | null} grants
 * @property {string | null} grantsNote what is wrong with the stored grants
 * @property {Tool[] | null} tools
 * @property {LedgerCall[] | null} ledger
 * @property {Session[] | null} sessions
 * @property {HistoryHour[] | null} history
 * @property {SystemInfo | null} info
 * @property {LogLine[]} log the newest last
 * @property {MeshEvent[]} events of the mesh, the newest last
 */

/**
 * @typedef {'status' | 'messages' | 'distress' | 'assistant' | 'nodes' | 'disk' | 'pending' | 'grants' | 'tools' | 'ledger' |
 *   'sessions' | 'history' | 'info' | 'warnings' | 'log'} Part
 */

/**
 * How each part is asked for. `poll` and `live` are the longest times between two asks without and with events, in
 * milliseconds. `note` is a line beside the rows. What is `watched` is asked for only while something shows it; what is `merged` adds to what is known.
 * @type {Record<Part, { method: string, params?: Record<string, unknown>, rows?: string, note?: string, poll: number, live: number, watched?: boolean, merged?: boolean }>}
 */
export const PARTS = {
  status: { method: 'mesh.status', poll: 3000, live: 60_000 },
  messages: { method: 'mesh.messages', params: { limit: 60 }, rows: 'messages', poll: 3000, live: 60_000 },
  distress: { method: 'mesh.distress', rows: 'distress', poll: 3000, live: 20_000 },
  pending: { method: 'assistant.pending', rows: 'pending', poll: 3000, live: 60_000 },
  assistant: { method: 'mesh.assistant-status', poll: 6000, live: 20_000 },
  nodes: { method: 'mesh.nodes', rows: 'nodes', poll: 6000, live: 20_000 },
  disk: { method: 'system.disk-status', poll: 30_000, live: 60_000 },
  grants: { method: 'assistant.grants-list', rows: 'callers', note: 'warning', poll: 10_000, live: 60_000, watched: true },
  tools: { method: 'assistant.list-tools', rows: 'tools', poll: 60_000, live: 60_000, watched: true },
  ledger: { method: 'assistant.ledger', params: { limit: 100 }, rows: 'calls', poll: 10_000, live: 20_000, watched: true },
  sessions: { method: 'auth.sessions', rows: 'sessions', poll: 10_000, live: 30_000, watched: true },
  history: { method: 'mesh.history', rows: 'hours', poll: 60_000, live: 60_000, watched: true },
  info: { method: 'system.info', poll: 60_000, live: 60_000 },
  // Both come into `log`: the grave lines always, the others when somebody reads them.
  warnings: { method: 'system.log', params: { limit: 60, level: 'warn' }, rows: 'lines', poll: 15_000, live: 600_000, merged: true },
  log: { method: 'system.log', params: { limit: 500 }, rows: 'lines', poll: 5000, live: 600_000, watched: true, merged: true },
};
/** @type {Part[]} */
export const NAMES = /** @type {Part[]} */ (Object.keys(PARTS));

/** What `changed` makes old. @type {Record<string, Part[]>} */
export const CHANGED = {
  grants: ['grants', 'assistant', 'tools'], contacts: ['assistant', 'nodes', 'grants'], sessions: ['sessions'], legs: ['assistant'],
  settings: ['assistant', 'status'], distress: ['distress', 'status'],
};
/** What an event of the mesh makes old. @type {Record<string, Part[]>} */
export const MESH = {
  heard: ['messages', 'nodes'], part_sent: ['messages'], part_state: ['messages'], turn_ended: ['ledger', 'assistant'],
  security: ['assistant', 'nodes'], paired: ['assistant', 'grants', 'nodes'], changed: ['assistant', 'grants', 'nodes'], link: ['status'], paused: ['status'],
  distress: ['distress'],
};
