import { agentTool, agentToolNames } from './agent-tools.ts'
import { serverGlobIssue } from './external-tools.ts'
import { globsMeet, matchesGlob } from './glob.ts'
import { normalized } from './readers/text-variants.ts'

/** Whether it is a known client's or a protocol tool. */
export function isAgentsTool(name: string): boolean {
  return agentTool(name) !== undefined || name.startsWith('mcp__')
}

/**
 * Without invisible characters, compatibility characters (such as full-width letters), and white space at its ends.
 * Such a name would escape the rules for the real name, and mislead the approver. Letters of other alphabets are
 * allowed, although some look Latin.
 */
export function isPlainName(name: string): boolean {
  return name === name.trim() && name === normalized(name, 'NFKC') && !/[\p{C}\p{Zl}\p{Zp}]/u.test(name)
}

/** Approvers read it on pages, in mails and chats, so no sign in it may make a sentence or a link. */
export const isAskedName = (name: string): boolean => isPlainName(name) && !/[\s:`<>"]/.test(name)

/** Every protocol tool, and also names of resources and prompts. */
const protocolNames = 'mcp__?*__?*'

const notPlain = 'a tool’s name must not have invisible or look-alike characters, or white space at its ends'

/** Those of the catalogue, and of the tools of agents' clients. */
export class KnownNames {
  readonly #names: readonly string[]
  readonly #byFold: ReadonlyMap<string, readonly string[]>

  constructor(catalogue: Iterable<string>) {
    this.#names = [...new Set([...catalogue, ...agentToolNames])]
    this.#byFold = Map.groupBy(this.#names, fold)
  }

  /** The glob must be able to match a tool. A misspelt name would protect nothing, and nobody would notice. */
  issue(glob: string): string | null {
    if (!isPlainName(glob)) return notPlain
    if (globsMeet(glob, protocolNames) || this.#names.some((name) => matchesGlob(glob, name))) return null
    const isGlob = /[*?]/.test(glob)
    const what = isGlob ? `\`${glob}\` matches no tool` : `there is no tool \`${glob}\``
    return `${what}: ${this.#hintFor(glob)}; \`GET /tools\` lists the tools`
  }

  /** The problem with a name in `external_tools`, such as a known one in other case, which would have no effect. */
  settingIssue(name: string): string | null {
    if (!isPlainName(name)) return notPlain
    if (/[*?]/.test(name)) return serverGlobIssue(name)
    if (this.#names.includes(name)) return null
    const meant = this.#byFold.get(fold(name)) ?? []
    return meant.length === 0
      ? null
      : `there is no tool \`${name}\`: did you mean \`${meant.join('` or `')}\``
  }

  #hintFor(glob: string): string {
    if (/^mcp_/i.test(glob)) return 'a protocol tool is `mcp__<server>__<tool>`, e.g. `mcp__tracker__*`'
    const near = nearestNames(glob, this.#names)
    if (near.length > 0) return `did you mean ${near.map((name) => `\`${name}\``).join(' or ')}`
    return 'name a tool of the catalogue, an agent tool such as `Bash`, or `mcp__<server>__<tool>`'
  }
}

/** At most three, the nearest first. */
export function nearestNames(glob: string, names: readonly string[]): string[] {
  const wanted = fold(glob)
  const most = Math.max(wanted.length < 4 ? 1 : 2, wanted.length / 3)
  // A longer text is too far from every name, and takes long to compare.
  if (wanted === '' || wanted.length > Math.max(...names.map(({ length }) => length)) + most) return []
  return names
    .map((name) => ({ name, distance: distanceTo(wanted, fold(name)) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, 3)
    .map(({ name }) => name)
}

/** Most mistakes are in case, separators and wildcards. */
const fold = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Letters to add, remove or change. Two parts in the wrong order (`send_mail` for `mail_send`) count as one change. */
function distanceTo(wanted: string, name: string): number {
  const turned = wanted.length === name.length && (name + name).includes(wanted)
  return turned ? Math.min(1, editDistance(wanted, name)) : editDistance(wanted, name)
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
