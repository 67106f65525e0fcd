import type { AnswerOf } from '../../api/routes/index.ts'
import { hasRole } from '../visit.ts'
import type { Role } from '../../policy/types.ts'
import { inShort } from './scope-choice.tsx'
import { capital } from './words.tsx'

/* The scopes of keys in words. `GET /scopes` says which there are, and the lowest role that can use each. */

/** By area, in the order of the pages. */
export const areas: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  'Workflows and runs': [
    ['workflows:read', 'read workflows'],
    ['workflows:write', 'create and change workflows'],
    ['runs:read', 'read runs'],
    ['runs:write', 'start, resume and cancel runs'],
    ['registry:write', 'publish templates'],
  ],
  Agents: [
    ['agents:authorize', 'ask whether an agent may make a call'],
    ['agents:read', 'read sessions of agents'],
    ['agents:revoke', 'revoke sessions of agents'],
  ],
  Approvals: [
    ['approvals:read', 'read approvals'],
    ['approvals:decide', 'approve and reject'],
  ],
  'Rules and records': [
    ['rules:read', 'read rules'],
    ['rules:write', 'create and change rules'],
    ['policies:read', 'read policies of tools'],
    ['policies:write', 'change policies of tools'],
    ['governance:read', 'read the settings of governance'],
    ['governance:write', 'change the settings of governance'],
    ['audit:read', 'read the audit log'],
  ],
  'Tools and data': [
    ['tools:read', 'read which tools there are'],
    ['tools:connect', 'connect tools to services'],
    ['secrets:*', 'everything about secrets of connections'],
    ['memory:read', 'read remembered values'],
    ['memory:write', 'write remembered values'],
    ['files:write', 'upload files'],
  ],
  Organization: [
    ['organizations:read', 'read groups and their members'],
    ['organizations:*', 'everything about organizations, members and webhooks'],
    ['api_keys:*', 'everything about API keys'],
    ['quota:read', 'read quotas'],
    ['quota:write', 'change quotas'],
  ],
}

const words = new Map(Object.values(areas).flat())

/** A key may have a whole area, such as `runs:*`. */
const wordsOf = (scope: string): string =>
  words.get(scope) ?? (scope.endsWith(':*') ? `everything of ${scope.slice(0, -2)}` : scope)

type ScopesView = AnswerOf<'GET /scopes'>

/** What this role can give to a key, and what the key has already. */
export function groupsOf({ scopes }: ScopesView, role: Role, held: readonly string[] = []) {
  const usable = scopes.filter(({ minimum_role: least }) => hasRole(role, least)).map(({ name }) => name)
  return groupsWith([...new Set([...usable, ...held])])
}

/** Acts of people, which the API refuses to keys of service accounts. */
const ofPeople = ['approvals:decide', 'tools:connect', 'api_keys:*', 'organizations:*']

export function groupsOfAccount({ scopes }: ScopesView, role: Role) {
  const usable = scopes.filter(
    ({ name, minimum_role: least }) => hasRole(role, least) && !ofPeople.includes(name),
  )
  return groupsWith(usable.map(({ name }) => name))
}

export function groupsWith(names: readonly string[]) {
  const groups = Object.entries(areas).map(([title, scopes]) => ({
    title,
    options: scopes.filter(([name]) => names.includes(name)),
  }))
  const others = names.filter((name) => !words.has(name)).map((name) => [name, wordsOf(name)] as const)
  return [...groups, { title: 'Whole areas', options: others }].filter(({ options }) => options.length > 0)
}

export const sentenceOfScopes = (scopes: readonly string[]): string => capital(inShort(scopes.map(wordsOf)))

/** What people usually want a key for, and the scope without which it would be of no use. */
export const presets = [
  ['agent', 'The hook of a coding agent', (name: string) => name === 'agents:authorize', 'agents:authorize'],
  ['read', 'A program that only reads', (name: string) => name.endsWith(':read'), null],
  [
    'runs',
    'A program that starts workflows',
    (name: string) =>
      ['workflows:read', 'runs:read', 'runs:write', 'tools:read', 'files:write'].includes(name),
    'runs:write',
  ],
] as const
