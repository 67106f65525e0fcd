import type { WorkflowDefinition } from '../../contract/definition.ts'
import type { LabelRuleBody, RuleBody } from '../../policy/rule.ts'
import type { GovernancePatch } from '../../policy/settings.ts'
import type { Restrictions } from '../../policy/tool-limits.ts'
import type { Role } from '../../policy/types.ts'
import type { Caller } from '../access/identity.ts'
import { covers, hasRole, type Scope } from '../access/scopes.ts'
import { DomainError } from '../errors.ts'

/* Objects as the files of a repository declare them (docs/files-and-ci.md). */

/** Their order in answers, and the order in which they are changed: rules name groups. */
export const declaredKinds = [
  'group',
  'organization',
  'label_rule',
  'rule',
  'tool_policy',
  'role_override',
  'workflow',
] as const
export type DeclaredKind = (typeof declaredKinds)[number]

/** In one request. */
export const mostObjects = 2_500

interface Bodies {
  readonly group: { readonly description: string; readonly members: readonly string[] }
  readonly organization: GovernancePatch
  readonly label_rule: LabelRuleBody
  readonly rule: RuleBody
  readonly tool_policy: { readonly allowed: boolean | null; readonly restrictions: Restrictions }
  readonly role_override: { readonly allowed: boolean }
  readonly workflow: {
    readonly name: string
    readonly description: string
    readonly definition: WorkflowDefinition
    /** If absent, it stays as it is. */
    readonly protected?: boolean | undefined
  }
}

export interface DeclaredAs<Kind extends DeclaredKind> {
  readonly kind: Kind
  /** With the kind, it names one object: see `nameOf`. */
  readonly name: string
  /** Its place in the request, for messages. */
  readonly at: number
  /** The file. */
  readonly path: string | null
  readonly body: Bodies[Kind]
}
export type Declared = { [Kind in DeclaredKind]: DeclaredAs<Kind> }[DeclaredKind]

/** The name of the one object of the kind `organization`. */
export const organizationName = 'organization'

/** Names a tool policy or an override. */
export const policyName = (tool: string, role: string | null | undefined): string =>
  role == null || role === '' ? tool : `${tool}/${role}`

/** A role has no slash. */
export function toolAndRole(name: string): { readonly tool: string; readonly role: string | undefined } {
  const at = name.lastIndexOf('/')
  return at < 0 ? { tool: name, role: undefined } : { tool: name.slice(0, at), role: name.slice(at + 1) }
}

export const keyOf = ({ kind, name }: { readonly kind: DeclaredKind; readonly name: string }): string =>
  `${kind} ${name}`

/** What begins the paths of details in errors, so that people find the file. */
export const placeOf = ({ path, at }: Pick<Declared, 'path' | 'at'>, field = ''): string =>
  path === null
    ? `objects[${at}]${field === '' ? '' : `.${field}`}`
    : `${path}${field === '' ? '' : `:${field}`}`

export interface ApplyRequest {
  readonly objects: readonly Declared[]
  /** Where the files are. Without it nothing is deleted. */
  readonly repository: string | null
  readonly commit: string | null
}

interface Right {
  readonly scope: Scope
  readonly role: Role
}

/** As the routes of each kind need them. */
const rights: Readonly<Record<DeclaredKind, { readonly reads: Right; readonly writes: Right }>> = {
  group: {
    reads: { scope: 'organizations:read', role: 'admin' },
    writes: { scope: 'organizations:*', role: 'owner' },
  },
  organization: {
    reads: { scope: 'governance:read', role: 'admin' },
    writes: { scope: 'governance:write', role: 'owner' },
  },
  label_rule: {
    reads: { scope: 'rules:read', role: 'member' },
    writes: { scope: 'rules:write', role: 'admin' },
  },
  rule: { reads: { scope: 'rules:read', role: 'member' }, writes: { scope: 'rules:write', role: 'admin' } },
  tool_policy: {
    reads: { scope: 'policies:read', role: 'admin' },
    writes: { scope: 'policies:write', role: 'owner' },
  },
  role_override: {
    reads: { scope: 'policies:read', role: 'admin' },
    writes: { scope: 'policies:write', role: 'owner' },
  },
  workflow: {
    reads: { scope: 'workflows:read', role: 'viewer' },
    writes: { scope: 'workflows:write', role: 'member' },
  },
}

/** The caller, who needs all that a change of these kinds needs: it is checked again under the lock. */
export function asWriterOf(caller: Caller, kinds: readonly DeclaredKind[]): Caller {
  const all = kinds.map((kind) => rights[kind].writes)
  const further = [...new Set(all.map(({ scope }) => scope))]
  const role = all.reduce(
    (highest, each) => (hasRole(each.role, highest) ? each.role : highest),
    caller.needs.role,
  )
  return { ...caller, needs: { ...caller.needs, further, role } }
}

/** Throws `missing_scope` or `insufficient_role`, which name the kind. */
export function requireRights(
  { role, scopes }: { readonly role: Role; readonly scopes: readonly string[] },
  kinds: Iterable<DeclaredKind>,
  need: 'reads' | 'writes',
): void {
  for (const kind of new Set(kinds)) {
    const { scope, role: least } = rights[kind][need]
    if (!covers(scopes, scope))
      throw new DomainError(
        'missing_scope',
        `the key lacks the scope \`${scope}\`, which objects of the kind \`${kind}\` need: use a key that has it`,
        [{ path: scope, message: `objects of the kind \`${kind}\` need the scope \`${scope}\`` }],
      )
    if (hasRole(role, least)) continue
    const message = `objects of the kind \`${kind}\` need the role \`${least}\``
    throw new DomainError('insufficient_role', `${message} in the organization, yours is \`${role}\``, [
      { path: least, message },
    ])
  }
}
