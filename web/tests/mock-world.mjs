/**
 * The invented mesh that the mock daemon tells of.
 *
 * Owns data only. Every node and key in it is made up.
 */

/** @import { AssistantStatus, CallerGrants, DiskStatus, Distress, HistoryHour, LedgerCall, LogLine, MeshMessage, MeshNode, MeshStatus, Pending, SystemInfo, Tool } from '../rpc.d.ts' */

/**
 * @typedef {object} World
 * @property {MeshStatus} status
 * @property {AssistantStatus} assistant
 * @property {MeshMessage[]} messages
 * @property {MeshNode[]} nodes
 * @property {Distress[]} distress
 * @property {DiskStatus} disk
 * @property {Pending[]} pending
 * @property {CallerGrants[]} grants
 * @property {string | null} grantsWarning
 * @property {Tool[]} tools
 * @property {LedgerCall[]} ledger
 * @property {HistoryHour[]} history
 * @property {LogLine[]} log
 * @property {SystemInfo} info
 * @property {{ name: string, code: string } | null} pairing
 */

/**
 * A node in good use: a conversation, a stranger, a foreign key.
 * @returns {World}
 */
export function lively() {
  const now = Date.now();
  /** @param {Partial<MeshMessage>} message @returns {MeshMessage} */
  const message = (message) => ({
    at: now, direction: 'in', node: '!a1b2c3d4', name: 'Ana', assurance: 'verified', channel: null, text: '', delivery: null, ignored: null, id: 1, ...message,
  });
  return {
    status: {
      connected: true, link: 'connected to !70b01001 Tombolo Node', port: '/dev/serial/by-id/usb-RAKwireless_WisCore_RAK4631_Board_0123456789ABCDEF-if00', frequency_mhz: 869.525, role: 'CLIENT', licensed: false, firmware_note: null, my_node: '!70b01001', owner: 'Tombolo Node', fingerprint: '3f0a 91c2 77de 04b8',
      firmware: '2.7.26', region: 'EU_868', modem: 'LongFast', warnings: [], stopped: false, refused_radio: null, turns_running: 1, turns_waiting: 0, parts_waiting: 2, kept_answers: 1,
      airtime: {
        used_ms: 41_300, limit_ms: 360_000, share_ms: 180_000, channel_utilization: 12.4, air_util_tx: 1.18, recovers_in_s: 0, paused: null, notes: [],
      },
    },
    assistant: {
      enabled: true, trusted_only: true, denied_askers: [], trigger: '!ai', channels: ['bots'], ollama_detected: true,
      models: ['qwen2.5-coder:7b', 'llama3.2:3b'], claude_available: false, openai_configured: false, model: { name: 'qwen2.5-coder:7b', source: 'configuration' },
      cloud: { requests_24h: 2, bytes_24h: 18_400, last: { at: now - 5_400_000, turn_id: 't0', leg: 'claude', bytes: 9100, content: ['question', 'history'] } }, denied: [], pairing: null, warnings: [],
      legs: [
        { name: 'ollama', state: 'ready', reason: null, median_ms: 4200 },
        { name: 'claude', state: 'unavailable', reason: 'no key in secrets/claude-api-key' },
        { name: 'offline', state: 'ready', reason: null },
      ],
      allowed_contacts: [
        { id: '!a1b2c3d4', name: 'Ana', fingerprint: '8c11 5e0f a9d3 2b47', pin: 'configured', foreign_fingerprint: null, grants: ['system'], source: 'configuration', key: 'QW5h', suspended: false, denied: false, queries: { used: 3, limit: 20 } },
        { id: '!b0b0b0b2', name: 'Ben', fingerprint: '51d0 c3aa 0e9f 6612', pin: 'unconfirmed', foreign_fingerprint: 'e2e2 0001 9bfa 44c0', grants: [], source: 'node', key: 'QmVu', suspended: false, denied: false, queries: { used: 0, limit: 20 } },
      ],
    },
    messages: [
      message({ at: now - 3_700_000, node: '!0badcafe', name: 'Mallory', assurance: 'unverified', text: '!ai how much disk space is left?', ignored: 'not a contact' }),
      message({ at: now - 1_500_000, assurance: 'signed', channel: 'bots', text: '!ai when does the tide turn at the causeway?' }),
      message({ at: now - 1_480_000, direction: 'out', channel: 'bots', text: 'I have no tide table here. Low water is usually about six hours after high water.', delivery: { state: 'relayed' } }),
      message({ at: now - 240_000, text: '!ai how much disk space is left, and is it enough for a month of logs? — naïve “quotes”, 日本語, 👩\u200d🚀' }),
      message({ at: now - 226_000, direction: 'out', text: '1/3 There are 412 GB free of 983 GB on /var/lib/tombolo. A month of logs takes about 2 GB at the present rate,', delivery: { state: 'delivered' } }),
      message({ at: now - 221_000, direction: 'out', text: '2/3 so there is room for many years of them. The largest folder is the model store with 38 GB;', delivery: { state: 'not_confirmed' } }),
      message({ at: now - 20_000, direction: 'out', text: '3/3 old models can be removed with the page.', delivery: { state: 'waiting', reason: 'Ana is away; tried again when heard' } }),
      message({ at: now - 12_000, node: '!b0b0b0b2', name: 'Ben', text: '!ai ping', snr: 9.5, rssi: -61 }),
      message({ at: now - 9_000, direction: 'out', node: '!b0b0b0b2', name: 'Ben', text: 'pong: SNR 6.3 dB, direct', delivery: { state: 'failed', reason: 'the radio refused the key' } }),
    ],
    nodes: [
      node({ node: '!a1b2c3d4', long_name: 'Ana', short_name: 'ANA', contact: 'Ana', standing: 'pinned', last_heard: now / 1000 - 20, snr: 6.25, rssi: -87, hops: 1, battery: 88 }),
      node({ node: '!b0b0b0b2', long_name: 'Ben', short_name: 'BEN', contact: 'Ben', standing: 'foreign_key', last_heard: now / 1000 - 12, snr: 9.5, hops: 0, battery: 101 }),
      node({ node: '!0badcafe', long_name: 'Ana\u202e \u200b<b>bold</b>', short_name: 'MAL', last_heard: now / 1000 - 3700, snr: -11.75, hops: 3, battery: 34 }),
      node({ node: '!5ea51de0', long_name: 'Seaside relay', short_name: 'SEA', last_heard: now / 1000 - 90_000, hops: 2 }),
    ],
    disk: {
      disks: [
        { path: '/', total: 62_000_000_000, available: 21_400_000_000, used_percent: 66 },
        { path: '/var/lib/tombolo', total: 983_000_000_000, available: 412_000_000_000, used_percent: 59 },
      ],
    },
    pending: [],
    distress: [],
    grantsWarning: null,
    grants: [
      { caller: 'operator', name: 'operator', source: 'default', in_force: true, categories: [{ category: 'system' }], tools: [], history: [] },
      { caller: 'key:QW5h', name: 'Ana', source: 'configuration', in_force: true, categories: [{ category: 'system' }], tools: [], history: [] },
      { caller: 'key:QmVu', name: 'Ben', source: 'default', in_force: false, categories: [{ category: 'system' }], tools: [], history: [] },
    ],
    tools: [
      tool('system_disk_status', 'system', 'Used and free space of the file systems.'), tool('system_load', 'system', 'Load, memory and uptime.'),
      tool('files_read', 'files', 'Reads a file of an allowed folder.'), tool('files_write', 'files', 'Writes a file in an allowed folder.', true),
      tool('notes_search', 'notes', 'Finds notes that hold a word.'), tool('notes_add', 'notes', 'Adds a note.', true),
      tool('service_restart', 'apps', 'Restarts one of the listed services.', true),
    ],
    ledger: [
      { at: now - 235_000, turn_id: 't1', caller: 'key:QW5h', tool: 'system_disk_status', category: 'system', outcome: 'ran', millis: 8 },
      { at: now - 60_000, turn_id: 't2', caller: 'key:QW5h', tool: 'files_read', category: 'files', outcome: 'denied', millis: 0 },
    ],
    history: Array.from({ length: 24 }, (_, n) => ({
      from: Math.floor(now / 3_600_000) * 3_600_000 - (23 - n) * 3_600_000,
      own_ms: [0, 0, 0, 2100, 4000, 0, 9200, 14_000, 22_500, 31_000, 12_000, 8000, 19_500, 41_300, 27_000, 6000, 3000, 11_000, 18_000, 24_000, 37_000, 29_000, 16_000, 41_300][n] ?? 0,
      channel_percent: n < 2 ? null : 4 + 14 * Math.abs(Math.sin(n / 3)),
      answered: n < 3 ? 0 : (n * 7) % 9, refused: n % 5 === 0 ? 2 : 0,
    })),
    log: [
      { seq: 1, at: now - 3_800_000, level: 'info', target: 'tombolo::radio::link', message: 'the simulated radio is connected' },
      { seq: 2, at: now - 3_700_000, level: 'warn', target: 'tombolo::mesh::service::accept', message: 'a stranger uses the name of a contact kind=unverified_claim from=!0badcafe' },
      { seq: 3, at: now - 900_000, level: 'warn', target: 'tombolo::mesh::service::accept', message: 'another key under the number of Ben kind=foreign_key from=!b0b0b0b2' },
      { seq: 4, at: now - 300_000, level: 'warn', target: 'tombolo::rpc::auth', message: 'login failed from 192.0.2.7' },
      { seq: 5, at: now - 100_000, level: 'info', target: 'tombolo::assistant::legs', message: 'ollama answered in 4.2 s' },
    ],
    info: {
      version: '0.3.0', uptime_s: 93_784, data_dir: '/var/lib/tombolo', storage: { data_bytes: 12_300_000, free_bytes: 412_000_000_000 },
      clock: { source: 'chrony', synchronised: true, radio_drift_s: -3 }, backup: { at: now - 3 * 86_400_000, folder: '/mnt/usb/tombolo-backup-20261128-031500' },
    },
    pairing: null,
  };
}

/**
 * A call that waits for a person.
 * @param {Partial<Pending>} call
 * @returns {Pending}
 */
export function waiting(call = {}) {
  return {
    id: 'c1', caller: 'key:QW5h', name: 'Ana', tool: 'service_restart', category: 'apps', arguments: { service: 'kiwix', force: false }, asked_at: Date.now(),
    expires_in_ms: 120_000, code_for_peer: true, ...call,
  };
}

/**
 * A call for help, of Ana with her key.
 * @param {Partial<Distress>} [call]
 * @returns {Distress}
 */
export function sos(call = {}) {
  return {
    id: 'm-1', at: Date.now() - 60_000, first_at: Date.now() - 60_000, times: 1, node: '!a1b2c3d4', name: 'Ana', assurance: 'verified', fingerprint: '8c11 5e0f a9d3 2b47',
    claims: null, channel: null, mqtt: false, text: 'broken leg at the causeway, 2 people', seen_at: null, snr: -7.5, hops: 2, ...call,
  };
}

/**
 * @param {string} name
 * @param {string} category
 * @param {string} description
 * @param {boolean} [destructive]
 * @returns {Tool}
 */
function tool(name, category, description, destructive = false) {
  return { name, category, description, destructive, granted: category === 'system' };
}

/** @param {Partial<MeshNode>} known @returns {MeshNode} */
function node(known) {
  const all = { node: '', long_name: '', short_name: '', fingerprint: null, contact: null, standing: 'stranger', last_heard: 0, snr: null, hops: null, battery: null, ...known };
  return { ...all, last_heard: Math.round(all.last_heard) };
}

/**
 * Enough Markdown for the mock: what the daemon's own renderer gives for the texts of the tests. A text that begins
 * with `<` is given out as it is, as a daemon would that sanitises nothing.
 * @param {string} text
 */
export function html(text) {
  if (text.startsWith('<')) return text;
  const safe = text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  return safe
    .split('\n\n')
    .map((block) => {
      if (block.startsWith('```')) return `<pre><code>${block.replace(/^```\w*\n|```$/g, '')}</code></pre>`;
      if (block.startsWith('- ')) return `<ul>${block.split('\n').map((line) => `<li>${inline(line.slice(2))}</li>`).join('')}</ul>`;
      if (block.startsWith('|')) {
        const [head = '', , ...rows] = block.split('\n');
        const cells = (/** @type {string} */ row, /** @type {string} */ tag) => `<tr>${row.split('|').slice(1, -1).map((cell) => `<${tag}>${inline(cell.trim())}</${tag}>`).join('')}</tr>`;
        return `<table><thead>${cells(head, 'th')}</thead><tbody>${rows.map((row) => cells(row, 'td')).join('')}</tbody></table>`;
      }
      return `<p>${inline(block)}</p>`;
    })
    .join('');
}

/** @param {string} text */
function inline(text) {
  return text.replace(/\*\*(.+?)\*\*/g, '<strong>$1</strong>').replace(/`(.+?)`/g, '<code>$1</code>')
    .replace(/\[(.+?)\]\((https?:\/\/(?:[^/)]*@)?([^/)]+)[^)]*)\)/g, (_, label, address, host) =>
      `<span class="link" data-address="${address}">${label} (${host})</span>`);
}
