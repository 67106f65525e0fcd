import { Budget, BudgetExceeded, priced } from './budget.ts'
import { compileCondition, evaluate, type Conditions } from './evaluate.ts'
import { knownLabels } from './label-sets.ts'
import { list, quote } from './text.ts'
import { calendarIdOf } from './readers/google-links.ts'
import { placeOf, placeWithin } from './readers/places.ts'
import { climbs, ruleRepository, searchScope } from './readers/repositories.ts'
import { maybe, no, yes, type Tri } from './tri.ts'
import { Hole, type Partial } from './values.ts'

/** Each tool of the catalogue declares which of them it supports. */
export const limitNames = [
  'read_only',
  'allowed_domains',
  'allowed_repos',
  'allowed_channels',
  'max_message_length',
  'max_response_size_kb',
] as const
export type LimitName = (typeof limitNames)[number]

/** `audience`: only the service knows who can read it, and is asked right before the call (activities/seen-state.ts). */
export type Reading =
  'recipients' | 'calendar' | 'audience' | 'message' | 'repository' | 'search' | 'path' | 'channel'

/** By limit, the parameters that it reads. */
export type LimitedParams = {
  readonly [Name in LimitName]?: { readonly [param: string]: Reading }
}

export interface Restrictions {
  readonly read_only?: boolean | undefined
  /** Or their subdomains. */
  readonly allowed_domains?: readonly string[] | undefined
  /** `owner/*` stands for all repositories of an owner. */
  readonly allowed_repos?: readonly string[] | undefined
  /** `#name`, an id, or `@me`. */
  readonly allowed_channels?: readonly string[] | undefined
  /** Characters of each parameter with the text of a message, e.g. `text`, `html` or `title`. */
  readonly max_message_length?: number | undefined
  /** The size of the output as JSON, in KiB. */
  readonly max_response_size_kb?: number | undefined
}

export interface Excess {
  /** False if it depends on unknown values, or if the check needs more comparisons than the budget allows. */
  readonly isCertain: boolean
  /** Follows "A tool policy lets the tool take", and shows no value of a parameter. */
  readonly issue: string
}

/** The first limit that is certainly broken, else the first that may be. */
export type LimitCheck = (params: Partial, budget: Budget) => Excess | null

/** `broken` may throw BudgetExceeded. */
interface Check {
  readonly issue: string
  broken(params: Partial, budget: Budget): Tri
}

export function compileLimits(limited: LimitedParams, restrictions: Restrictions): LimitCheck {
  const checks = [
    ...lengthChecks(limited, restrictions.max_message_length),
    ...domainChecks(limited, restrictions.allowed_domains),
    ...channelChecks(limited, restrictions.allowed_channels),
    ...repositoryChecks(limited, restrictions.allowed_repos),
  ]
  return (params, budget) => {
    let possible: Excess | null = null
    for (const { issue, broken } of checks) {
      const result = within(() => broken(params, budget))
      if (result === yes) return { isCertain: true, issue }
      if (result === maybe) possible ??= { isCertain: false, issue }
    }
    return possible
  }
}

/** `maybe` over the budget. A call that is about to be made is then refused. */
function within(broken: () => Tri): Tri {
  try {
    return broken()
  } catch (error) {
    if (error instanceof BudgetExceeded) return maybe
    throw error
  }
}

/** Cut, because a policy may list 1,000 values and each refusal is stored with its sentence. */
const listed = (values: readonly string[]): string => list(values.map(quote), 'and')

function valueOf(params: Partial, param: string): Partial {
  if (params instanceof Hole) return new Hole(null)
  if (typeof params !== 'object' || params === null || !Object.hasOwn(params, param)) return null
  return (params as { readonly [name: string]: Partial })[param] ?? null
}

function lengthChecks(
  { max_message_length: read = {} }: LimitedParams,
  longest: number | undefined,
): Check[] {
  if (longest === undefined) return []
  return Object.keys(read).map((param) => ({
    issue: `at most ${longest} characters as \`${param}\` (\`max_message_length\`), and this call has more`,
    broken(params) {
      const value = valueOf(params, param)
      if (typeof value === 'string') return value.length > longest ? yes : no
      if (!(value instanceof Hole)) return no
      return value.leastLength > longest ? yes : maybe
    },
  }))
}

/** Like a rule's two conditions: the parameter is present, and one of its recipients is in none of the domains. */
function domainChecks({ allowed_domains: read = {} }: LimitedParams, domains?: readonly string[]): Check[] {
  if (domains === undefined) return []
  const named = Object.entries(read).filter(([, reading]) => reading !== 'audience')
  return named.map(([param, reading]) => {
    const conditions: Conditions = {
      labels: undefined,
      params: [
        compileCondition({ param, operator: 'exists', value: true }, true),
        compileCondition({ param, operator: 'domain_not_in', value: [...domains] }, true),
      ],
      isRestrictive: true,
    }
    return {
      issue: `only recipients in ${listed(domains)} (\`allowed_domains\`), and \`${param}\` of this call has another`,
      broken(params, budget) {
        if (reading === 'calendar' && isOwnCalendar(valueOf(params, param))) return no
        return evaluate(conditions, {
          params,
          // Domains are compared without `places`. A parameter that the call leaves out names no recipient.
          places: null,
          defaults: null,
          destination: null,
          labels: knownLabels([]),
          origins: new Map(),
          budget,
          byLabels: new Map(),
          found: new Map(),
        })
      },
    }
  })
}

/** Any other id is the address of a person or a group, who see its events, so it must be in a domain. */
const isOwnCalendar = (value: Partial): boolean =>
  typeof value === 'string' && calendarIdOf(value) === 'primary'

function channelChecks(
  { allowed_channels: read = {} }: LimitedParams,
  channels?: readonly string[],
): Check[] {
  if (channels === undefined) return []
  const allowed = new Set(channels.map((each) => placeOf('channel', each)))
  return Object.keys(read).map((param) => ({
    issue: `only the channels ${listed(channels)} (\`allowed_channels\`), and \`${param}\` of this call names another`,
    broken(params, budget) {
      const value = valueOf(params, param)
      if (value instanceof Hole) return maybe
      if (typeof value !== 'string') return yes
      const channel = placeWithin('channel', value, budget)
      return channel !== null && allowed.has(channel) ? no : yes
    },
  }))
}

const pathReader = priced(climbs)
const searchReader = priced(searchScope)

function repositoryChecks({ allowed_repos: read = {} }: LimitedParams, repos?: readonly string[]): Check[] {
  if (repos === undefined) return []
  const allowed = new Set(repos.map((each) => ruleRepository(each)))
  const isAllowed = (name: string | null): boolean =>
    name !== null && (allowed.has(name) || allowed.has(`${name.split('/', 1)[0]}/*`))
  const only = `only the repositories ${listed(repos)} (\`allowed_repos\`)`
  const params = Object.entries(read)
  /** How certainly a parameter names something outside the list, and a repository at all. */
  const names = (reading: Reading, value: Partial, budget: Budget): { outside: Tri; named: Tri } => {
    if (value === null || value === '') return { outside: no, named: no }
    if (value instanceof Hole) return { outside: maybe, named: maybe }
    if (typeof value !== 'string') return { outside: yes, named: no }
    if (reading === 'path')
      return { outside: budget.once(value, pathReader)[0] === true ? yes : no, named: no }
    if (reading === 'repository')
      return { outside: isAllowed(placeWithin('repository', value, budget)) ? no : yes, named: yes }
    const [scope = null] = budget.once(value, searchReader)
    if (scope === null || !scope.names.every(isAllowed)) return { outside: yes, named: no }
    return { outside: no, named: scope.isBounded ? yes : no }
  }
  const most = (values: readonly Tri[]): Tri => Math.max(no, ...values) as Tri
  const each = params.map(([param, reading]): Check => ({
    issue:
      reading === 'path'
        ? `${only}, and \`${param}\` of this call may lead out of its repository`
        : `${only}, and \`${param}\` of this call names another, or none that can be read`,
    broken(call, budget) {
      return names(reading, valueOf(call, param), budget).outside
    },
  }))
  const none: Check = {
    issue: `${only}, and this call names none`,
    broken: (call, budget) => {
      const named = most(params.map(([param, reading]) => names(reading, valueOf(call, param), budget).named))
      return (yes - named) as Tri
    },
  }
  return params.length === 0 ? [] : [...each, none]
}
