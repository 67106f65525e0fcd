import { runsInFolder } from './agent-tools.ts'
import { matchesGlob } from './glob.ts'
import type { PlaceKind } from './readers/places.ts'
import { asGithubLink, linkedInside } from './readers/repositories.ts'
import { KnownNames, nearestNames } from './tool-names.ts'
import type { CallSource, SideEffect } from './types.ts'
import { type Defaults, Hole, isList, type Partial, type Places } from './values.ts'

/*
 * What the policy knows of the tools of the catalogue. It knows none by itself: whoever compiles rules, or makes their
 * schemas, gives the facts.
 */

/** The facts that the declaration of a tool states for rules. */
export interface DeclaredFacts {
  readonly name: string
  readonly sideEffect: SideEffect
  /**
   * Parameters that name people by address. `me` in such a parameter means the requester. Rules see the requester's
   * address in place of `me`.
   */
  readonly people?: readonly string[]
  /**
   * Parameters that name a repository, a channel and so on. Rules compare the thing that such a parameter names, and
   * not its spelling. Example: `owner/name` and a link into this repository count as the same.
   */
  readonly places?: { readonly [param: string]: PlaceKind }
  /**
   * The values that the tool uses for parameters that a call leaves out. Rules that restrict compare these values. A
   * value that only the service or the connection knows is not here, such as the main branch of a repository.
   */
  readonly defaults?: { readonly [param: string]: string | number | boolean }
  /**
   * Parameters with which a call can carry any text to the service. Places, names of models, dates and states carry no
   * free text. test/tools/catalog.test.ts lists the other parameters that take a text, so that none is forgotten.
   */
  readonly freeTexts?: readonly string[]
  /**
   * Parameters that a link in the parameter `repo` can give. Example: the link `https://github.com/acme/app/issues/7`
   * gives the `number` 7.
   */
  readonly linked?: readonly ('number' | 'path' | 'ref')[]
}

/** The declared facts of a tool, and those that follow from the schema of its parameters. */
export interface GivenFacts extends DeclaredFacts {
  /** The names of all parameters. A call with any other parameter is refused. */
  readonly params: readonly string[]
  /** The parameters that can hold more than one value: a list, a text with several addresses, or any JSON. */
  readonly several: readonly string[]
}

/** How rules read the parameters of a call. */
export interface Reading {
  readonly places: Places
  readonly defaults: Defaults
  readonly linked: NonNullable<DeclaredFacts['linked']>
}

/** A tool of the catalogue, as the policy knows it. */
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

/**
 * The name by which rules compare the host of a call of a workflow. No tool of the catalogue has a parameter of this
 * name. A tool of an agent may have one, and rules then see that parameter.
 */
export const destinationParam = 'destination'

/** The facts of every tool of the catalogue. */
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

  /** Returns the tools that one of the globs matches. Without globs, returns every tool. */
  covered(globs: readonly string[] | undefined): readonly KnownTool[] {
    return this.tools.filter(({ name }) => globs?.some((glob) => matchesGlob(glob, name)) ?? true)
  }

  /**
   * Returns how rules read the parameters of a call. A tool of an agent may have the name of a catalogue tool, but other
   * parameters. Of the tools of agents, only those that run in the client's folder have a parameter that names a place.
   */
  reading(tool: string, source: CallSource): Reading {
    if (source === 'workflows') return this.#byName.get(tool) ?? asWritten
    return runsInFolder(tool) ? inFolder : asWritten
  }

  /**
   * Whether a call can give a parameter more than one value. Only the parameters of catalogue tools are known, so the
   * answer is true for any other tool, for a glob, and for the path `*`.
   */
  mayHoldSeveral(tool: string, param: string): boolean {
    return param === '*' || this.#byName.get(tool)?.several.includes(param) !== false
  }

  /**
   * Returns the problem with a condition's path in a rule for these tools, or null. The first segment of the path must
   * be a parameter of at least one of the tools, or `*`. If one of the tools is a glob or an agent tool, every path is
   * accepted, because such a tool may have any parameter.
   */
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

function quoted(names: readonly string[], word: string): string {
  const all = names.map((name) => `\`${name}\``)
  const last = all.pop() ?? ''
  return all.length === 0 ? last : `${all.join(', ')} ${word} ${last}`
}

/**
 * Returns the side effect of a call of a workflow. A call that carries free text to a host that is not the service's own
 * delivers content to somebody else, so it is `egress`, whatever the tool declares. A parameter counts if it is named,
 * also with an unknown or empty value. Any other parameter counts if it takes a value from an output or from an input
 * with labels, because a name of a place can then be a secret.
 * @param destination null: the call stays here, or there is no connection
 * @param takesResults whether a template in the parameters names an output, or an input with labels
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

/**
 * Whether a text with this beginning may be a link. Returns false for a text that begins like `owner/name`. An owner
 * has no dot and no colon, but a host or a scheme has one.
 */
const mayBeLink = (prefix: string): boolean => !/^[^.:/]*\//.test(prefix)

/**
 * Returns the parameters as the tool reads them. If a call leaves out the issue or the file, the tool takes it from the
 * link in `repo`. Rules must see these parameters too. An unknown `repo` may be such a link. Then each of these
 * parameters that the call leaves out counts as unknown.
 */
export function withLinked({ linked }: Pick<Reading, 'linked'>, params: Partial): Partial {
  if (linked.length === 0 || typeof params !== 'object' || params === null) return params
  if (params instanceof Hole || isList(params)) return params
  const own = (name: string): Partial => (Object.hasOwn(params, name) ? (params[name] ?? null) : null)
  const repo = own('repo')
  // A parameter that is null counts as left out.
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
