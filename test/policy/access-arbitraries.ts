import fc from 'fast-check'
import type { LimitedParams } from '../../src/policy/tool-limits.ts'
import type { RoleOverride, SavedAccess, ToolPolicy } from '../../src/policy/tool-access.ts'
import type { Role } from '../../src/policy/types.ts'

/* Tool policies over the parameters of arbitraries.ts: every limit, with every reading that a plan can check. */

export const role = fc.constantFrom<Role>('member', 'admin')

const restrictions = fc.record(
  {
    read_only: fc.boolean(),
    allowed_domains: fc.constantFrom(['acme.com'], ['evil.net']),
    allowed_channels: fc.constantFrom(['#hello'], ['#hello', '@me']),
    allowed_repos: fc.constantFrom(['acme/app'], ['acme/*']),
    max_message_length: fc.constantFrom(3, 100),
  },
  { requiredKeys: [] },
)

const policyOf = (tool: fc.Arbitrary<string>): fc.Arbitrary<ToolPolicy> =>
  fc.record({
    toolName: tool,
    role: fc.option(role, { freq: 2 }),
    allowed: fc.constantFrom(null, null, null, true, false),
    restrictions,
  })

const overrideOf = (tool: fc.Arbitrary<string>): fc.Arbitrary<RoleOverride> =>
  fc.record({ toolName: tool, role, allowed: fc.boolean() })

/** Policies of these tools; often none. */
export function accessTo(tools: readonly string[]): fc.Arbitrary<SavedAccess> {
  const tool = fc.constantFrom(...tools)
  return fc.oneof(
    fc.constant<SavedAccess>({ policies: [], overrides: [], fallback: 'allow' }),
    fc.record({
      policies: fc.uniqueArray(policyOf(tool), {
        maxLength: 2 * tools.length,
        selector: (each) => `${each.toolName} ${each.role}`,
      }),
      overrides: fc.array(overrideOf(tool), { maxLength: 1 }),
      fallback: fc.constantFrom('allow', 'allow', 'allow', 'allow', 'deny'),
    }),
  )
}

const limits: readonly LimitedParams[] = [
  { allowed_domains: { to: 'recipients' }, max_message_length: { body: 'message' } },
  { allowed_channels: { to: 'channel' }, allowed_repos: { body: 'search' } },
  { allowed_domains: { list: 'calendar' }, allowed_repos: { to: 'repository', body: 'path' } },
]

/** The limits that a tool takes: one of the three sets, by the length of its name. */
export const limitsOf = (tool: string): LimitedParams => limits[tool.length % 3] ?? {}
