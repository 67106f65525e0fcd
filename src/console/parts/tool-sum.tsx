import { compileToolAccess } from '../../policy/tool-access.ts'
import type { Restrictions } from '../../policy/tool-limits.ts'
import type { Role, SideEffect } from '../../policy/types.ts'
import { Table } from './list.tsx'
import { Badge } from './state.tsx'
import { Limited, limitsInWords, roles, whoseWords, type Override, type Policy } from './tool-policy.tsx'
import { Message } from './words.tsx'

/* What holds for each role together: one block is enough, lists must both fit, and the smaller number counts. */

export interface Saved {
  readonly policies: readonly Policy[]
  readonly overrides: readonly Override[]
  readonly fallback: 'allow' | 'deny'
}

/** Roles that may call tools at all. */
const calling = roles.slice(1)

export function Sum(props: { tool: string; sideEffect: SideEffect; saved: Saved }) {
  const { tool, sideEffect, saved } = props
  const isRole = (name: string) => (roles as readonly string[]).includes(name)
  const groups = [...saved.policies, ...saved.overrides].flatMap(({ role }) =>
    role === null || isRole(role) ? [] : [role],
  )
  const rows = [
    ...calling.map((role): readonly [string, Role, string[]] => [whoseWords(role), role, []]),
    ...[...new Set(groups)].map((group): readonly [string, Role, string[]] => [
      `Members in the group ${group}`,
      'member',
      [group],
    ]),
  ]
  return (
    <Table
      label="What holds together"
      head={['Who', 'May call it', 'Limits']}
      rows={rows.map(([who, role, own]) => {
        const refusal = refusalFor(saved, { tool, sideEffect, role, own })
        return [
          who,
          refusal === null ? (
            <Badge tone="good" word="Yes" />
          ) : (
            <div class="stack">
              <p>
                <Badge tone="bad" word="No" />
              </p>
              <Message text={refusal} />
            </div>
          ),
          refusal === null ? (
            <Limited words={limitsFor(saved.policies, tool, [role, ...own])} />
          ) : (
            <span class="quiet">–</span>
          ),
        ]
      })}
    />
  )
}

interface Caller {
  readonly tool: string
  readonly sideEffect: SideEffect
  readonly role: Role
  readonly own: readonly string[]
}

/** As the decision about a call says it, without its parameters. */
function refusalFor({ policies, overrides, fallback }: Saved, { tool, sideEffect, role, own }: Caller) {
  const access = compileToolAccess(
    {
      policies: policies.map((each) => ({ ...each, toolName: each.tool_name })),
      overrides: overrides.map((each) => ({ ...each, toolName: each.tool_name })),
      groups: new Map([['caller', own]]),
      fallback,
    },
    () => ({}),
  )
  return access.of('caller').refusal({ tool, sideEffect, role, params: null })?.explanation ?? null
}

/** Two lists stay two clauses: a value must be in both. */
function limitsFor(policies: readonly Policy[], tool: string, names: readonly string[]): string[] {
  const all = policies
    .filter((each) => each.tool_name === tool && (each.role === null || names.includes(each.role)))
    .map(({ restrictions }) => restrictions)
  const least = (name: 'max_message_length' | 'max_response_size_kb'): Restrictions => {
    const numbers = all.flatMap((each) => each[name] ?? [])
    return numbers.length === 0 ? {} : { [name]: Math.min(...numbers) }
  }
  const numbers = { max_message_length: undefined, max_response_size_kb: undefined }
  const lists = all.flatMap((each) => limitsInWords({ ...each, ...numbers }))
  return [
    ...new Set(lists),
    ...limitsInWords({ ...least('max_message_length'), ...least('max_response_size_kb') }),
  ]
}
