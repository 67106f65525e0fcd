import { z } from 'zod'
import { catalog, getTool } from '../../tools/index.ts'
import { domain } from '../../policy/operators/operands.ts'
import { headline } from '../../policy/issues.ts'
import { channelOf } from '../../policy/readers/channels.ts'
import { ruleRepository } from '../../policy/readers/repositories.ts'
import { limitNames, type Restrictions } from '../../policy/tool-limits.ts'
import { DomainError, errorAt } from '../errors.ts'

/**
 * The limits that a policy can contain. Each tool supports some of these limits (`limitsOf`). A policy with a limit
 * that its tool does not support is refused.
 */
export const restrictions = z.strictObject({
  read_only: z.boolean().optional(),
  allowed_domains: z
    .array(domain)
    .min(1, 'name at least one domain; `allowed: false` blocks the tool')
    .max(1000)
    .optional()
    .describe(
      'Every recipient, and everybody who can read the folder or spreadsheet that the call writes to, must be in one of them, or below it.',
    ),
  allowed_repos: z
    .array(
      z
        .string()
        .max(200)
        .refine(
          (text) => ruleRepository(text) !== null,
          'write `owner/name`, or `owner/*` for all of an owner',
        ),
    )
    .min(1, 'name at least one repository; `allowed: false` blocks the tool')
    .max(1000)
    .optional()
    .describe(
      'Every repository of the call must be one of them: `owner/name`, or `owner/*` for all of an owner.',
    ),
  allowed_channels: z
    .array(
      z
        .string()
        .max(200)
        .refine(
          (text) => channelOf(text) === text,
          'write `#name` in lower case, a channel’s id such as `C024BE91L`, or `@me`',
        ),
    )
    .min(1, 'name at least one channel; `allowed: false` blocks the tool')
    .max(1000)
    .optional()
    .describe('The channel must be one of them, as the call names it: `#name`, an id, or `@me`.'),
  max_message_length: z
    .int()
    .min(1)
    .max(10_000_000)
    .optional()
    .describe('Most characters of a message’s text, and of its HTML.'),
  max_response_size_kb: z
    .int()
    .min(1)
    .max(32 * 1024)
    .optional()
    .describe('Largest output as JSON, in KiB.'),
})

/**
 * Throws `validation_error` for a limit that the tool does not support, because the limit would have no effect. The
 * message names the tools that support the limit. `"read_only": false` is no limit, so every tool takes it.
 */
export function refuseLimits(tool: string, given: Restrictions): void {
  const takes = limitsOf(tool)
  const issues = limitNames
    .filter((name) => limits(given[name]) && !takes.includes(name))
    .map((name) => {
      const others = Object.values(catalog).filter(({ constraints }) => Object.hasOwn(constraints, name))
      const which = others.map((each) => `\`${each.name}\``).join(', ')
      const message = `\`${tool}\` does not take \`${name}\`; ${which}${name === 'read_only' ? ' and the tools of agents' : ''} ${others.length === 1 ? 'does' : 'do'}`
      return { path: `restrictions.${name}`, message }
    })
  if (issues.length === 0) return
  throw new DomainError('validation_error', headline('the policy cannot be saved', issues), issues)
}

/**
 * Throws `validation_error` for a body that both blocks and limits its tool: a block refuses every call, so the limits
 * would have no effect. Limits that were saved earlier stay while the tool is blocked. So to start or end a block, it
 * is enough to change `allowed`.
 */
export function refuseLimitedBlock({
  allowed,
  restrictions: given = {},
}: {
  readonly allowed?: boolean | null | undefined
  readonly restrictions?: Restrictions | undefined
}): void {
  if (allowed !== false || !Object.values(given).some(limits)) return
  throw errorAt(
    'validation_error',
    'restrictions',
    'a policy that blocks its tool takes no limits, because they would have no effect: leave out `restrictions`, or give `allowed: null` to limit the tool without blocking it',
  )
}

/** Whether the value of a limit can refuse a call. */
const limits = (value: unknown): boolean => value !== undefined && value !== false

/**
 * The limits that a tool supports. A tool of agents supports only `read_only`, because only the agent's adapter sees
 * the output of the tool.
 */
const limitsOf = (tool: string): readonly string[] =>
  Object.keys(getTool(tool)?.constraints ?? { read_only: {} })
