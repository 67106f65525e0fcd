import { agentTool } from './agent-tools.ts'
import { matchesGlob } from './glob.ts'
import type { GovernanceSettings } from './settings.ts'
import type { CallSource, Label, SideEffect } from './types.ts'
import { unionLabels } from './types.ts'

/* What an owner says about agents' tools (docs/decisions/0264), by whole name or glob for tools of one MCP server. */

export type ExternalTools = GovernanceSettings['external_tools']

/** A field is missing if no key that covers the tool has it. */
export interface ToldClass {
  readonly side_effect?: SideEffect
  readonly output_labels?: readonly Label[]
}

/** They are compared with the name of each new tool. */
export const mostToolGlobs = 100

interface ServerGlob {
  readonly prefix: string
  /** The part for the server's own name of the tool. */
  readonly own: string
  readonly length: number
  readonly told: ToldClass
}

/**
 * A glob must name one server whole, so it covers no built-in tool, and no server whose name only begins alike. `__`
 * may stand in the server's name: behind a gateway, a tool is `mcp__<gateway>__<server>__<tool>`.
 */
export function serverGlobIssue(glob: string): string | null {
  if (partsOf(glob) !== null) return null
  return `\`${glob}\` must name one MCP server and only its tools with \`*\`, e.g. \`mcp__github__*\`: give any other tool by its whole name`
}

function partsOf(glob: string): Pick<ServerGlob, 'prefix' | 'own'> | null {
  const [, prefix = '', own = ''] = /^(mcp__[^_*?](?:[^*?]*[^_*?])?__)([^_?][^?]*)$/.exec(glob) ?? []
  return own.includes('*') && !own.includes('__') ? { prefix, own } : null
}

/** An own name with `__`, or a `_` at its start, may belong to another server: `mcp__github__evil__x`. */
function covers({ prefix, own }: ServerGlob, name: string): boolean {
  if (!name.startsWith(prefix)) return false
  const called = name.slice(prefix.length)
  return !called.startsWith('_') && !called.includes('__') && matchesGlob(own, called)
}

const isGlob = (name: string): boolean => name.includes('*')

const effects: readonly SideEffect[] = ['read', 'write', 'egress']

/** For globs of the same length: the strictest side effect, and all labels. */
function combined(all: readonly ToldClass[]): ToldClass {
  const told = all.flatMap(({ side_effect }) => side_effect ?? [])
  const labels = all.flatMap(({ output_labels }) => (output_labels === undefined ? [] : [output_labels]))
  const strictest = effects.findLast((effect) => told.includes(effect))
  return {
    ...(strictest === undefined ? {} : { side_effect: strictest }),
    ...(labels.length === 0 ? {} : { output_labels: unionLabels(...labels) }),
  }
}

/** Agents can send any text as the name of a tool. */
const mostKept = 1_000

class Reader {
  readonly #exact: ReadonlyMap<string, ToldClass>
  readonly #globs: readonly ServerGlob[]
  readonly #kept = new Map<string, ToldClass>()

  constructor(setting: ExternalTools) {
    const entries = Object.entries(setting) as [string, ToldClass][]
    this.#exact = new Map(entries.filter(([name]) => !isGlob(name)))
    this.#globs = entries
      .filter(([name]) => isGlob(name))
      .flatMap(([glob, told]) => {
        const parts = partsOf(glob)
        return parts === null ? [] : [{ ...parts, length: glob.length, told }]
      })
      .sort((a, b) => a.length - b.length)
  }

  read(tool: string): ToldClass {
    let told = this.#kept.get(tool)
    if (told === undefined) {
      told = this.#find(tool)
      if (this.#kept.size >= mostKept) this.#kept.clear()
      this.#kept.set(tool, told)
    }
    return told
  }

  /** Each field comes from the whole name, else from the longest glob that has the field. */
  #find(tool: string): ToldClass {
    const byLength = Map.groupBy(
      this.#globs.filter((glob) => covers(glob, tool)),
      ({ length }) => length,
    )
    const shortestFirst = [...byLength.values()].map((group) => combined(group.map(({ told }) => told)))
    return Object.assign({}, ...shortestFirst, defined(this.#exact.get(tool) ?? {})) as ToldClass
  }
}

const defined = (told: ToldClass): ToldClass =>
  Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined))

const readers = new WeakMap<ExternalTools, Reader>()

function readerOf(setting: ExternalTools): Reader {
  let reader = readers.get(setting)
  if (reader === undefined) readers.set(setting, (reader = new Reader(setting)))
  return reader
}

/** A whole name wins over globs, a longer glob over a shorter one, and of equally long ones the stricter counts. */
export const toldOf = (setting: ExternalTools, tool: string): ToldClass => readerOf(setting).read(tool)

/** Tools of known clients need none, unless they give text to an MCP server. */
export function needsClass(tool: string): boolean {
  const known = agentTool(tool)
  return known === undefined || known.asksServer === true
}

/** Nobody whom the organization trusts has said what the tool does, so the name that its server has chosen decides. */
export const isUnclassed = (setting: ExternalTools, tool: string, source: CallSource): boolean =>
  source === 'agents' && needsClass(tool) && toldOf(setting, tool).side_effect === undefined
