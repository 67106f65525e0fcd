import { runsInFolder } from './agent-tools.ts'
import { matchesGlob } from './glob.ts'
import type { PlaceKind } from './readers/places.ts'
import { asGithubLink, linkedInside } from './readers/repositories.ts'
import { KnownNames, nearestNames } from './tool-names.ts'
import type { CallSource, SideEffect } from './types.ts'
import { type Defaults, Hole, isList, type Partial, type Places } from './values.ts'
import { list } from './text.ts'

/* The policy knows no tool by itself: whoever compiles rules, or makes their schemas, gives the facts. */

/** What the declaration of a tool states for rules. */
export interface DeclaredFacts {
  readonly name: string
  readonly sideEffect: SideEffect
  /** Parameters that name people by address. Rules see the requester's address in place of `me`. */
  readonly people?: readonly string[]
  /** Parameters that name a thing which rules compare, however spelled: `owner/name`, or a link into it. */
  readonly places?: { readonly [param: string]: PlaceKind }
  /** For parameters that a call leaves out; rules that restrict compare them. Not what only the service knows. */
  readonly defaults?: { readonly [param: string]: string | number | boolean }
  /**
   * Parameters that can carry any text to the service. Places, names of models, dates and states carry none.
   * test/tools/catalog.test.ts lists all others that take a text, so that none is forgotten.
   */
  readonly freeTexts?: readonly string[]
  /** Parameters that a link in `repo` can give: `https://github.com/acme/app/issues/7` gives the `number` 7. */
  readonly linked?: readonly ('number' | 'path' | 'ref')[]
}

/** The declared facts, and those that follow from the schema of the parameters. */
export interface GivenFacts extends DeclaredFacts {
  /** A call with any other parameter is refused. */
  readonly params: readonly string[]
  /** They can hold more than one value: a list, a text with several addresses, or any JSON. */
  readonly several: readonly string[]
}

/** How rules read the parameters of a call. */
export interface Reading {
  readonly places: Places
  readonly defaults: Defaults
  readonly linked: NonNullable<DeclaredFacts['linked']>
}

export interface KnownTool extends Reading, Pick<GivenFacts, 'name' | 'sideEffect' | 'params' | 'several'> {
  readonly people: readonly string[]
  readonly freeTexts: readonly string[]
}

const knownTool = ({ places, defaults, ...given }: GivenFacts): KnownTool => ({
  name: given.name,
  sideEffect: given.sideEffect,
  params: given.params,
  several: given.several,
  freeTexts: given.freeTexts ?? [],
  people: given.people ?? [],
  linked: given.linked ?? [],
  places: places === undefined ? null : new Map(Object.entries(places)),
  defaults: defaults === undefined ? null : new Map(Object.entries(defaults)),
})

const asWritten: Reading = { places: null, defaults: null, linked: [] }
const inFolder: Reading = { ...asWritten, places: new Map([['cwd', 'folder']]) }

/** For rules, the host of a workflow's call. Catalogue tools have no such parameter; one of an agent may. */
export const destinationParam = 'destination'

export class ToolFacts {
  readonly tools: readonly KnownTool[]
  readonly names: KnownNames
  readonly #byName: ReadonlyMap<string, KnownTool>

  constructor(given: readonly GivenFacts[]) {
    this.tools = given.map(knownTool)
    this.#byName = new Map(this.tools.map((tool) => [tool.name, tool]))
    this.names = new KnownNames(this.#byName.keys())
  }

  get(name: string): KnownTool | undefined {
    return this.#byName.get(name)
  }

  covered(globs: readonly string[] | undefined): readonly KnownTool[] {
    return this.tools.filter(({ name }) => globs?.some((glob) => matchesGlob(glob, name)) ?? true)
  }

  /** An agent's tool may share a catalogue name. Only those that run in the client's folder name a place. */
  reading(tool: string, source: CallSource): Reading {
    if (source === 'workflows') return this.#byName.get(tool) ?? asWritten
    return runsInFolder(tool) ? inFolder : asWritten
  }

  /** True for any tool that is not of the catalogue, for a glob, and for the path `*`. */
  mayHoldSeveral(tool: string, param: string): boolean {
    return param === '*' || this.#byName.get(tool)?.several.includes(param) !== false
  }

  /** A path must begin with a parameter of one of the tools, or `*`. A glob or an agent tool may have any. */
  paramIssue(tools: readonly string[], path: string): string | null {
    const [param = ''] = path.split('.')
    const known = tools.map((tool) => this.#byName.get(tool)?.params)
    if (
      param === '*' ||
      path === destinationParam ||
      known.some((names) => names === undefined || names.includes(param))
    )
      return null
    const names = [...new Set(known.flatMap((each) => each ?? []))]
    const near = nearestNames(param, names)
    const hint =
      near.length > 0 ? `did you mean ${quoted(near, 'or')}` : `its parameters are ${quoted(names, 'and')}`
    return `${quoted([...new Set(tools)], 'or')} has no parameter \`${param}\`: ${hint}`
  }
}

const quoted = (names: readonly string[], word: 'and' | 'or') =>
  list(
    names.map((name) => `\`${name}\``),
    word,
    Infinity,
  )

/**
 * Free text to a host that is not the service's own delivers content to somebody else, so the call is `egress`,
 * whatever the tool declares. A named parameter counts, also with an unknown or empty value. With `takesResults`, a
 * template names an output or an input with labels, and the name of a place can then be a secret. `destination` null:
 * the call stays here, or there is no connection.
 */
export function sideEffectOf(
  { sideEffect, freeTexts = [] }: Pick<DeclaredFacts, 'sideEffect' | 'freeTexts'>,
  params: { readonly [param: string]: unknown },
  destination: { readonly ownHost: boolean } | null,
  takesResults: boolean,
): SideEffect {
  if (destination === null || destination.ownHost) return sideEffect
  if (takesResults) return 'egress'
  return freeTexts.some((param) => Object.hasOwn(params, param)) ? 'egress' : sideEffect
}

/** False for a text like `owner/name`. An owner has no dot and no colon, but a host or a scheme has one. */
const mayBeLink = (prefix: string): boolean => !/^[^.:/]*\//.test(prefix)

/** The link in `repo` may give the issue or file, which rules must see; an unknown `repo` makes them unknown. */
export function withLinked({ linked }: Pick<Reading, 'linked'>, params: Partial): Partial {
  if (linked.length === 0 || typeof params !== 'object' || params === null) return params
  if (params instanceof Hole || isList(params)) return params
  const own = (name: string): Partial => (Object.hasOwn(params, name) ? (params[name] ?? null) : null)
  const repo = own('repo')
  const missing = linked.filter((name) => own(name) === null)
  if (repo instanceof Hole) {
    if (!mayBeLink(repo.prefix ?? '')) return params
    return {
      ...params,
      ...Object.fromEntries(missing.map((name) => [name, new Hole(null, { from: repo.from })])),
    }
  }
  const given = typeof repo === 'string' ? linkedInside(asGithubLink(repo)) : {}
  const found = missing.flatMap((name) => {
    const value = given[name] ?? null
    return value === null ? [] : [[name, value] as const]
  })
  return found.length === 0 ? params : { ...params, ...Object.fromEntries(found) }
}
