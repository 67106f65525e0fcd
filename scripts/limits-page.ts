import { mostArrivalSeconds } from '../src/api/file-upload.ts'
import { format, resolveConfig } from 'prettier'
import { maxOutputLength } from '../src/activities/ended.ts'
import { defaultRetry } from '../src/activities/retry.ts'
import {
  mostAttempts as mostChatAttempts,
  mostFailures as mostChatFailures,
} from '../src/activities/notify/send.ts'
import { maxFileSize } from '../src/activities/tools/file-read.ts'
import { mostAnswerBytes } from '../src/activities/tools/github/client.ts'
import { agentBodyLimit, mostAgentValues } from '../src/api/agent-question.ts'
import { rateLimits } from '../src/api/auth-options.ts'
import { authBodyLimit } from '../src/api/auth.ts'
import { defaultBodyLimit, mostNames, mostPieces, mostValues, smallBody } from '../src/api/json-body.ts'
import { longestRequestId } from '../src/api/request-id.ts'
import { openApiDocument } from '../src/api/openapi.ts'
import { routes } from '../src/api/routes/index.ts'
import { mostExternalTools, mostFlags } from '../src/api/schemas/governance.ts'
import { catalog } from '../src/catalog/index.ts'
import { maxMailRecipients } from '../src/catalog/mail-send.ts'
import { maxMemoryValueLength } from '../src/catalog/memory-key.ts'
import { mostOfPreview } from '../src/catalog/preview.ts'
import { mostReferences } from '../src/contract/definition-check.ts'
import { mostItems, mostSteps } from '../src/contract/definition.ts'
import { deepestJson, longestKey } from '../src/contract/json.ts'
import { usualMailDelay } from '../src/contract/mail-delay.ts'
import { ceiling } from '../src/contract/plan-limits.ts'
import { mostAttempts } from '../src/contract/status.ts'
import { approvalSeconds } from '../src/governance/agents/ask.ts'
import { mostWaiting, shared } from '../src/governance/limits/request-shares.ts'
import { mostSingleItems } from '../src/governance/notifications/plan-slack.ts'
import { mostRecipients } from '../src/governance/notifications/recipients.ts'
import {
  mostAttempts as mostMailAttempts,
  mostOfHour as mostMailsOfHour,
} from '../src/governance/notifications/send-mail.ts'
import { mostGuesses, secondsForOneMore } from '../src/governance/people/guesses.ts'
import { mailsAnHour } from '../src/governance/people/invitations.ts'
import { mostRuleBytes, mostRuleValues } from '../src/governance/rules/size-limit.ts'
import { mostRoleOverrides } from '../src/governance/rules/role-overrides.ts'
import { mostToolPolicies } from '../src/governance/rules/tool-policies.ts'
import { mostChanges } from '../src/governance/runs/effects/approval-use.ts'
import { mostStoredBytes } from '../src/governance/runs/effects/storage-limit.ts'
import { shownOutputBytes } from '../src/governance/runs/read/read.ts'
import {
  mostReferences as mostRunReferences,
  mostReferredBytes,
} from '../src/governance/runs/start/given-inputs.ts'
import { mostParamText } from '../src/governance/runs/values/loading.ts'
import { mostWaiting as mostWaitingMessages } from '../src/governance/webhooks/fan-out.ts'
import { attemptMilliseconds } from '../src/governance/webhooks/send.ts'
import { mostOfTurn } from '../src/governance/webhooks/turns.ts'
import { keptDays, keptDeliveries } from '../src/governance/webhooks/upkeep.ts'
import { mostWebhooks } from '../src/governance/webhooks/webhooks.ts'
import { comparisonBudget } from '../src/policy/budget.ts'
import { mostResolvedText } from '../src/policy/text-budget.ts'
import { mostLabels } from '../src/policy/types.ts'
import { maxDocumentSize } from '../src/shared/documents/document.ts'
import { mostSheetCells, mostSheetRows, mostUnpacked } from '../src/shared/documents/office.ts'
import { mostPages } from '../src/shared/documents/pdf.ts'
import { usualLimits } from '../src/shared/documents/sandbox.ts'
import { mostCells, mostColumns, mostRows } from '../src/shared/documents/table.ts'
import { readEnvironment } from '../src/shared/environment.ts'
import { mostHeapBytes, mostValues as mostOutputValues } from '../src/shared/json-size.ts'
import { longest as longestCommand } from '../src/shell/limits.ts'

export const limitsPath = new URL('../docs/reference/limits.md', import.meta.url)

type Schema = Readonly<Record<string, unknown>>
const document = openApiDocument(routes) as {
  readonly components: { readonly schemas: Schema }
  readonly paths: Readonly<Record<string, Readonly<Record<string, { parameters: readonly Parameter[] }>>>>
}
interface Parameter {
  readonly name: string
  readonly schema: { readonly maximum?: number; readonly maxLength?: number; readonly default?: number }
}

/** A number of a named part of openapi.json, such as `RuleRequest.tools.maxItems`. Follows references and items. */
function of(path: string): string {
  const [name = '', ...steps] = path.split('.')
  let at: unknown = document.components.schemas[name]
  for (const step of steps) {
    const { properties, items, anyOf } = at as {
      properties?: Schema
      items?: Schema
      anyOf?: readonly Schema[]
    }
    const places = [properties, at as Schema, items, ...(anyOf ?? [])]
    at = places.find((place) => place?.[step] !== undefined)?.[step]
  }
  if (typeof at !== 'number') throw new Error(`openapi.json has no number at \`${path}\``)
  return count(at)
}

const count = (number: number): string => number.toLocaleString('en-US')

function bytes(number: number): string {
  const [unit, size] =
    number >= 1024 ** 3 ? ['GiB', 1024 ** 3] : number >= 1024 ** 2 ? ['MiB', 1024 ** 2] : ['KiB', 1024]
  return `${count(number / size)} ${unit}`
}

function seconds(number: number): string {
  const [unit, size] = [['day', 86_400] as const, ['hour', 3_600] as const, ['minute', 60] as const].find(
    ([, each]) => number >= each && number % each === 0,
  ) ?? ['second', 1]
  return `${count(number / size)} ${unit}${number === size ? '' : 's'}`
}

function parameter(
  method: string,
  path: string,
  wanted: string,
): Record<'maximum' | 'maxLength' | 'default', number> {
  const found = document.paths[path]?.[method]?.parameters.find(({ name }) => name === wanted)
  const { maximum = Number.NaN, maxLength = Number.NaN, default: value = Number.NaN } = found?.schema ?? {}
  return { maximum, maxLength, default: value }
}
const wait = (method: string, path: string): string => {
  const { maximum, default: value } = parameter(method, path, 'wait')
  return `${seconds(maximum)}; default ${seconds(value)}`
}
const characters = (path: string): string => `${of(`${path}.maxLength`)} characters`
const perMinute = (path: keyof typeof rateLimits): string =>
  `${rateLimits[path].max} per ${seconds(rateLimits[path].window).replace('1 ', '')} and address`
const { values: settings } = readEnvironment({})

type Rows = readonly (readonly [what: string, limit: string])[]
const bodies: Rows = [
  ...routes.flatMap((route): Rows => {
    if (route.bodyLimit === undefined && route.bodyValues === undefined) return []
    const { bodyLimit = defaultBodyLimit, bodyValues = mostValues } = route
    return [[`\`${route.key}\``, `${bytes(bodyLimit)}, ${count(bodyValues)} values`]]
  }),
  [
    '`POST /authorize`, `POST /hooks/claude-code`',
    `${bytes(agentBodyLimit)}, ${count(mostAgentValues)} values`,
  ],
  ['`/api/auth/*`', `${bytes(authBodyLimit)}, ${count(mostValues)} values`],
  ['every other route', `${bytes(defaultBodyLimit)}, ${count(mostValues)} values`],
  ['levels of nesting', count(deepestJson)],
  ['different names of fields', count(mostNames)],
  ['a name of a field', `${count(longestKey)} characters`],
  ['a whole number', `±${Number.MAX_SAFE_INTEGER}: send a larger one as text`],
  ['pieces in which a body arrives', count(mostPieces)],
]
const listed = parameter('get', '/runs', 'limit')
const header = (name: string): number => parameter('post', '/workflows', name).maxLength
const requests: Rows = [
  ['`limit` of a list', `${listed.maximum}; default ${listed.default}`],
  [
    'a filter, `cursor` or `organization_id` in the query',
    `${parameter('get', '/runs', 'cursor').maxLength} characters`,
  ],
  ['`wait` of `POST /workflows/{id}/execute`', wait('post', '/workflows/{id}/execute')],
  ['`wait` of `GET /authorize/approvals/{id}`', wait('get', '/authorize/approvals/{id}')],
  ['`wait` of `POST /hooks/claude-code`', wait('post', '/hooks/claude-code')],
  [
    '`Idempotency-Key`',
    `${header('Idempotency-Key')} printable ASCII characters without spaces; kept for 24 hours`,
  ],
  ['`X-Request-Id`', `${longestRequestId} characters; a longer one is replaced`],
  ['agents’ questions of one organization at once, beside another one', count(shared.question)],
  [
    'other requests of one organization at once, beside another one',
    `${shared.small}, and ${shared.large} with a body over ${bytes(smallBody)}`,
  ],
  ['requests of one organization that wait in a process', count(mostWaiting)],
]
const definitions: Rows = [
  ['steps', count(mostSteps)],
  ['templates', count(mostReferences)],
  ['items of a `for_each`', count(mostItems)],
  ['categories', of('WorkflowDefinition.categories.maxItems')],
  ['name of a workflow or a template', characters('WorkflowRequest.name')],
  ['description', characters('WorkflowRequest.description')],
  ['`message` of a version', characters('WorkflowChanges.message')],
  ['id of a step, name of an input', characters('WorkflowStep.id')],
  ['`summary` of a step', characters('WorkflowStep.summary')],
  ['`retry.attempts`', `${of('RetryPolicy.attempts.maximum')}; default ${defaultRetry.attempts}`],
  [
    '`retry.backoff_seconds`, and each pause',
    `${of('RetryPolicy.backoff_seconds.maximum')}; default ${defaultRetry.backoff_seconds}`,
  ],
  ['`timeout_seconds`', `${of('WorkflowStep.timeout_seconds.maximum')}; default: the tool’s own`],
  [
    'tags of a template',
    `${of('TemplateRequest.tags.maxItems')} of ${of('TemplateRequest.tags.items.maxLength')} characters`,
  ],
]
const runs: Rows = [
  [
    'inputs that refer to outputs of other runs',
    `${mostRunReferences}, ${bytes(mostReferredBytes)} together`,
  ],
  ['text that the templates of one value produce', bytes(mostResolvedText)],
  ['resolved parameters of one call', bytes(mostParamText)],
  [
    'output of one call, as JSON',
    `${bytes(maxOutputLength)}, ${count(mostOutputValues)} values, ${bytes(mostHeapBytes)} in memory`,
  ],
  ['answer of a service, unpacked', `${bytes(mostAnswerBytes)}, ${count(mostOutputValues)} values of JSON`],
  ['parameters and outputs that one run stores', bytes(mostStoredBytes)],
  ['unknown outcomes that one request resolves', of('ResolveRequest.item_indexes.maxItems')],
  [
    'outputs that `GET /runs/{id}` shows',
    `${bytes(shownOutputBytes)}; \`GET /runs/{id}/steps/{step}/output\` has the rest`,
  ],
  [
    'labels of a value',
    `${count(mostLabels)} of ${of('WorkflowDefinition.categories.items.maxLength')} characters`,
  ],
  ['attempts at a call, crashes of its worker included', count(mostAttempts)],
  ['approval of a whole run', `${seconds(settings.RUN_APPROVAL_SECONDS)} (\`RUN_APPROVAL_SECONDS\`)`],
  ['data of a run after its end', `${settings.RETENTION_DAYS} days (\`RETENTION_DAYS\`)`],
]
const files: Rows = [
  ['uploaded file, and its text', bytes(maxDocumentSize)],
  ['time for an uploaded file to arrive', `${mostArrivalSeconds} s`],
  ['parts of an Office file, unpacked', bytes(mostUnpacked)],
  ['pages of a PDF', count(mostPages)],
  ['rows, and cells, of all sheets of an Excel file', `${count(mostSheetRows)}; ${count(mostSheetCells)}`],
  ['rows, columns and cells of a table', `${count(mostRows)}; ${count(mostColumns)}; ${count(mostCells)}`],
  [
    'time to read a file',
    `${count(usualLimits.processorSeconds)} seconds of the processor, ${seconds(usualLimits.seconds)}`,
  ],
]
const tools: Rows = [
  ...Object.values(catalog).map(
    ({ name, timeoutSeconds }) => [`time of one \`${name}\``, seconds(timeoutSeconds)] as const,
  ),
  ['file that `file_read` reads', bytes(maxFileSize)],
  ['value of the memory, as JSON', `${count(maxMemoryValueLength)} characters`],
  ['key of the memory', `${count(catalog.memory_get.params.shape.key.maxLength ?? Number.NaN)} characters`],
  ['rounds of approval after what a call changes has changed', count(mostChanges)],
  ['recipients of a mail: `to`, `cc` and `bcc` together', count(maxMailRecipients)],
  ['`subject`, `text` and `html` of a mail', mailTexts()],
  ['a value in the preview of a held call', `${count(mostOfPreview.value)} characters`],
  ['each side of its diff', `${count(mostOfPreview.side)} characters`],
]
const rules: Rows = [
  ['name of a rule', characters('RuleRequest.name')],
  ['`tools`, `params` of a rule', `${of('RuleRequest.tools.maxItems')} each`],
  [
    'values of one condition',
    `${of('ListCondition.value.maxItems')} of ${of('EqualsCondition.value.maxLength')} characters`,
  ],
  ['labels of one condition', of('LabelConditions.any_of.maxItems')],
  ['`approvals_needed`, `approval_threshold`', of('RuleRequest.approvals_needed.maximum')],
  ['`expires_after_seconds`', `${of('RuleRequest.expires_after_seconds.maximum')} (10 years); 0: never`],
  ['all rules of an organization', `${bytes(mostRuleBytes)} of text, ${count(mostRuleValues)} values`],
  ['tool policies of an organization', count(mostToolPolicies)],
  ['overrides of roles of an organization', count(mostRoleOverrides)],
  ['webhooks of an organization', count(mostWebhooks)],
  ['`url` of a webhook', `${of('WebhookRequest.url.maxLength')} characters`],
  ['`allowed_domains` of a policy', of('ToolRestrictions.allowed_domains.maxItems')],
  ['`category_flags`, `external_tools`', `${count(mostFlags)}, ${count(mostExternalTools)}`],
  ['drafts of `POST /organizations/{id}/rules/test`', of('RuleTrialRequest.rules.maxItems')],
  ['comparisons of one decision', `${count(comparisonBudget)}; a call that needs more is denied`],
]
const messages: Rows = [
  ['people who get a message about one approval, in each channel', count(mostRecipients)],
  ['items of a step that have messages of their own in Slack', `${mostSingleItems}; more items share one`],
  ['tries of a message in Slack', count(mostChatAttempts)],
  [
    'looks for a message that may have arrived, and edits of one, until one succeeds',
    count(mostChatFailures),
  ],
  [
    '`delay_seconds` of mails',
    `${of('MailPreferencesRequest.delay_seconds.maximum')}; ${usualMailDelay} unless a person chooses`,
  ],
  ['mails of an organization about what waits', `${mostMailsOfHour} an hour; the others wait`],
  ['tries of a mail that certainly did not leave', count(mostMailAttempts)],
  ['messages that wait for a webhook', count(mostWaitingMessages)],
  ['ended deliveries of a webhook that are kept', `${count(keptDeliveries)}, for ${keptDays} days`],
  ['messages to one webhook', `${mostOfTurn} a second`],
  ['time of one attempt at a message to a webhook', `${attemptMilliseconds / 1_000} seconds`],
]
const agents: Rows = [
  ['names: session, tool, call', characters('AuthorizeRequest.session_id')],
  ['shell command that is read', `${count(longestCommand)} characters; a longer one counts as a script`],
  ['approval of an agent’s call', `${seconds(approvalSeconds)}, unless its rule says otherwise`],
]
const people: Rows = [
  ['comment of a vote, reason of a rejection or cancellation', characters('ApproveRequest.comment')],
  ['reason of a freeze', characters('FreezeRequest.reason')],
  ['scopes of an API key', of('ApiKeyRequest.scopes.maxItems')],
  [
    'mails for one person’s invitations in an hour',
    `${mailsAnHour.address} to one address, ${mailsAnHour.all} in all`,
  ],
  [
    'validity of an invitation',
    seconds(Number(of('InvitationRequest.expires_in_seconds.maximum').replaceAll(',', ''))),
  ],
  ['wrong passwords', `${mostGuesses} at once, then one in ${seconds(secondsForOneMore)}`],
  ['signing in', perMinute('/sign-in/email')],
  ['signing up', perMinute('/sign-up/email')],
  ['override of a quota', `${ceiling} times the plan’s limit`],
]

function mailTexts(): string {
  const { subject, text, html } = catalog.mail_send.params.shape
  return `${[subject.maxLength, text.maxLength, html.unwrap().maxLength].map((most) => count(most ?? Number.NaN)).join('; ')} characters`
}

const table = (title: string, rows: Rows): string =>
  [
    `## ${title}\n`,
    '| What | At most |',
    '| --- | --- |',
    ...rows.map(([what, limit]) => `| ${what} | ${limit} |`),
  ].join('\n')

/** The page on limits, as Markdown. */
export async function limitsPage(): Promise<string> {
  const text = `# Limits

<!-- Written by \`npm run openapi\` from the limits in the code (scripts/limits-page.ts). -->

These limits are the same for every organization. The limits of a plan, which an owner can change, are in
[quotas](quotas.md); settings of the installation are in [configuration](../configuration.md).

A body with too many bytes or pieces is 413 \`too_large\`. Too many values, levels or names, and numbers that are too large, are 400
\`bad_request\`. A field over its limit is 422 \`validation_error\` and names the field. A value that becomes too large during a run
fails its step, with the limit in the error. The reasons for the limits of bodies are in
[decision 66](../decisions/0066-limits-on-one-body.md).

${table('Bodies', bodies)}

${table('Requests', requests)}

A request over its organization's line is 429 \`rate_limited\`, and an agent's question over it is a \`deny\`. On a busy process, requests
of an organization that uses more than its part wait longer ([decision 78](../decisions/0078-a-share-for-each-organization.md)).

${table('Workflow definitions', definitions)}

${table('Runs', runs)}

${table('Files', files)}

${table('Tools', tools)}

${table('Rules, policies and settings', rules)}

${table('Messages', messages)}

${table('Agents', agents)}

${table('People and keys', people)}
`
  if (text.includes('NaN')) throw new Error('a limit has no number: see scripts/limits-page.ts')
  return format(text, { ...(await resolveConfig(limitsPath)), parser: 'markdown' })
}
