import { z } from 'zod'
import { catalog, getTool } from '../../tools/index.ts'
import { domain } from '../../policy/operators/operands.ts'
import { headline } from '../../policy/issues.ts'
import { channelOf } from '../../policy/readers/place-ids.ts'
import { ruleRepository } from '../../policy/readers/repositories.ts'
import { limitNames, type Restrictions } from '../../policy/tool-limits.ts'
import { DomainError, errorAt } from '../errors.ts'

const allowedList = (item: z.ZodType<string>, rows: string, description: string) =>
  z
    .array(item)
    .min(1, `name at least one ${rows}; \`allowed: false\` blocks the tool`)
    .max(1000)
    .optional()
    .describe(description)

/** Each tool supports some of them (`limitsOf`). A policy with another one is refused. */
export const restrictions = z.strictObject({
  read_only: z.boolean().optional(),
  allowed_domains: allowedList(
    domain,
    'domain',
    'Every recipient, and everybody who can read the folder or spreadsheet that the call writes to, must be in one of them, or below it.',
  ),
  allowed_repos: allowedList(
    z
      .string()
      .max(200)
      .refine(
        (text) => ruleRepository(text) !== null,
        'write `owner/name`, or `owner/*` for all of an owner',
      ),
    'repository',
    'Every repository of the call must be one of them: `owner/name`, or `owner/*` for all of an owner.',
  ),
  allowed_channels: allowedList(
    z
      .string()
      .max(200)
      .refine(
        (text) => channelOf(text) === text,
        'write `#name` in lower case, a channel’s id such as `C024BE91L`, or `@me`',
      ),
    'channel',
    'The channel must be one of them, as the call names it: `#name`, an id, or `@me`.',
  ),
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

/** It would have no effect. The message names the tools that do. `"read_only": false` is no limit. */
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

/** They would have no effect. Limits that were saved earlier stay: changing `allowed` starts or ends a block. */
export function refuseLimitedBlock(
  allowed: boolean | null | undefined,
  given: Restrictions | undefined = {},
): void {
  if (allowed !== false || !Object.values(given).some(limits)) return
  throw errorAt(
    'validation_error',
    'restrictions',
    'a policy that blocks its tool takes no limits, because they would have no effect: leave out `restrictions`, or give `allowed: null` to limit the tool without blocking it',
  )
}

/** Whether it can refuse a call. */
const limits = (value: unknown): boolean => value !== undefined && value !== false

/** A tool of agents has only `read_only`: its output is seen by the agent's adapter alone. */
const limitsOf = (tool: string): readonly string[] =>
  Object.keys(getTool(tool)?.constraints ?? { read_only: {} })
