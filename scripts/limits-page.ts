import { mostArrivalSeconds } from '../src/api/file-form.ts'
import { format, resolveConfig } from 'prettier'
import { maxOutputLength } from '../src/activities/attempt.ts'
import { defaultRetry } from '../src/activities/answers.ts'
import { mostAnswerBytes } from '../src/tools/kit/exchange.ts'
import { agentBodyLimit, mostAgentValues } from '../src/api/routes/agents.ts'
import { authBodyLimit } from '../src/api/auth.ts'
import { bytesForPiece, mostPieces } from '../src/api/body-bytes.ts'
import { defaultBodyLimit, mostNames, mostValues, smallBody } from '../src/api/json-body.ts'
import { longestRequestId } from '../src/api/http-server.ts'
import { routes } from '../src/api/routes/index.ts'
import { mostReferences } from '../src/contract/definition-check.ts'
import { longestPath } from '../src/contract/definition-check.ts'
import { deepestJson, longestKey } from '../src/contract/json.ts'
import { usualLine } from '../src/governance/limits/fair-share.ts'
import { limits } from '../src/governance/limits/shares.ts'
import { mostFileBytes } from '../src/governance/files/run-files.ts'
import { keptHours } from '../src/governance/idempotency.ts'
import { mostRunsOfChain } from '../src/governance/runs/start/chain.ts'
import { mostOpenReruns, rerunHours } from '../src/governance/runs/start/reruns.ts'
import { mostResolvedBytes } from '../src/calls/runs/resolve.ts'
import { mostStoredBytes } from '../src/calls/runs/storage-limit.ts'
import { mostFailedItems, mostSealedBytes } from '../src/governance/runs/read/calls.ts'
import { shownOutputBytes } from '../src/governance/runs/read/read.ts'
import {
  mostReferences as mostRunReferences,
  mostReferredBytes,
} from '../src/governance/runs/start/given-inputs.ts'
import { mostParamText } from '../src/calls/runs/loading.ts'
import { mostResolvedText } from '../src/policy/templates.ts'
import { maxDocumentSize } from '../src/shared/documents/document.ts'
import { mostSheetCells, mostSheetRows, mostUnpacked } from '../src/shared/documents/office.ts'
import { mostPages } from '../src/shared/documents/pdf.ts'
import { usualLimits } from '../src/shared/documents/sandbox.ts'
import { mostCells, mostColumns, mostRows } from '../src/shared/documents/table.ts'
import { readEnvironment } from '../src/shared/environment.ts'
import { mostHeapBytes, mostValues as mostOutputValues } from '../src/shared/json-size.ts'
import {
  bytes,
  characters,
  count,
  numberAt,
  parameter,
  sameAt,
  seconds,
  wait,
  type Rows,
} from './limits-numbers.ts'
import { messages } from './limits-messages.ts'
import { agents, people } from './limits-people.ts'
import { rules } from './limits-rules.ts'
import { tools } from './limits-tools.ts'

export const limitsPath = new URL('../docs/reference/limits.md', import.meta.url)

const { values: settings } = readEnvironment({})

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
  [
    'pieces in which a body arrives',
    `${count(mostPieces)}; more if they have ${bytesForPiece} bytes on average`,
  ],
]

const listed = parameter('get', '/runs', 'limit')

const audit = (name: string): string =>
  count(parameter('get', '/organizations/{id}/governance/audit', name).maximum)

const header = (name: string): number => parameter('post', '/workflows', name).maxLength

const requests: Rows = [
  ['`limit` of a list', `${listed.maximum}; default ${listed.default}`],
  [
    '`per_page`, and `page`, of `GET /organizations/{id}/governance/audit`',
    `${audit('per_page')}; ${audit('page')}`,
  ],
  [
    'a filter, `cursor` or `organization_id` in the query',
    `${parameter('get', '/runs', 'cursor').maxLength} characters`,
  ],
  ['`wait` of `POST /workflows/{id}/execute`', wait('post', '/workflows/{id}/execute')],
  ['`wait` of `GET /authorize/approvals/{id}`', wait('get', '/authorize/approvals/{id}')],
  ['`wait` of `POST /hooks/claude-code`', wait('post', '/hooks/claude-code')],
  [
    '`Idempotency-Key`',
    `${header('Idempotency-Key')} printable ASCII characters without spaces; kept for ${keptHours} hours`,
  ],
  ['`X-Request-Id`', `${longestRequestId} characters; a longer one is replaced`],
  ['agents’ questions of one organization at once, beside another one', count(limits.question.beside)],
  [
    'other requests of one organization at once, beside another one',
    `${limits.small.beside}, and ${limits.large.beside} with a body over ${bytes(smallBody)}`,
  ],
  ['requests of one organization that wait in a process', count(usualLine)],
]

const definitions: Rows = [
  ['steps', numberAt('WorkflowDefinition.steps.maxItems')],
  ['steps that one step names in `depends_on`', numberAt('WorkflowStep.depends_on.maxItems')],
  ['templates', count(mostReferences)],
  ['names on the way to one value, together', `${count(longestPath)} characters`],
  ['items of a `for_each`', numberAt('WorkflowStep.for_each.maxItems')],
  ['`slug`', `${numberAt('WorkflowRequest.definition.slug.maxLength')} characters`],
  ['`$schema`', `${numberAt('WorkflowRequest.definition.$schema.maxLength')} characters`],
  ['`parallel`', numberAt('WorkflowStep.parallel.maximum')],
  [
    '`options` of an input',
    `${numberAt('WorkflowInput.options.maxItems')}, each of ${numberAt('WorkflowInput.options.items.maxLength')} characters`,
  ],
  ['`labels` of an input', numberAt('WorkflowInput.labels.maxItems')],
  [
    'template of a `for_each` or a `when`',
    `${sameAt('WorkflowStep.for_each.maxLength', 'WorkflowStep.when.maxLength')} characters`,
  ],
  ['categories', numberAt('WorkflowDefinition.categories.maxItems')],
  [
    '`readers`, `run_by`',
    `${sameAt('WorkflowDefinition.readers.maxItems', 'WorkflowRequest.readers.maxItems')}, ${sameAt('WorkflowDefinition.run_by.maxItems', 'WorkflowRequest.run_by.maxItems')}`,
  ],
  [
    'name of a workflow or a template',
    `${sameAt('WorkflowRequest.name.maxLength', 'TemplateRequest.template_name.maxLength')} characters`,
  ],
  ['description of a workflow, an input or a rule', characters('WorkflowRequest.description')],
  ['`message` of a version', characters('WorkflowChanges.message')],
  [
    'id of a step, name of an input',
    `${sameAt('WorkflowStep.id.maxLength', 'WorkflowStep.depends_on.items.maxLength')} characters`,
  ],
  ['`summary` of a step', characters('WorkflowStep.summary')],
  ['`wait.until` of a step', characters('WorkflowStep.wait.until')],
  ['template in `wait.seconds`', characters('WorkflowStep.wait.seconds')],
  [
    '`ask.title`, and one of its `choices`',
    `${sameAt('WorkflowStep.ask.title.maxLength', 'WorkflowStep.ask.choices.items.maxLength')} characters`,
  ],
  ['template in `ask.to.person`', characters('WorkflowStep.ask.to.anyOf.2.properties.person')],
  ['`choices` of a question', numberAt('WorkflowStep.ask.choices.maxItems')],
  ['`retry.attempts`', `${numberAt('RetryPolicy.attempts.maximum')}; default ${defaultRetry.attempts}`],
  [
    '`retry.backoff_seconds`, and each pause',
    `${numberAt('RetryPolicy.backoff_seconds.maximum')}; default ${defaultRetry.backoff_seconds}`,
  ],
  ['`timeout_seconds`', `${numberAt('WorkflowStep.timeout_seconds.maximum')}; default: the tool’s own`],
  [
    'tags of a template',
    `${numberAt('TemplateRequest.tags.maxItems')} of ${numberAt('TemplateRequest.tags.items.maxLength')} characters`,
  ],
]

const runs: Rows = [
  [
    'inputs that refer to outputs of other runs',
    `${mostRunReferences}, ${bytes(mostReferredBytes)} together`,
  ],
  [
    'files of a run',
    `${numberAt('ExecuteRequest.files.maxItems')}, with ${bytes(mostFileBytes)} of text and rows together`,
  ],
  [
    'labels that a caller gives one input',
    numberAt('ExecuteRequest.input_labels.additionalProperties.maxItems'),
  ],
  ['name of a `time_zone`', characters('ExecuteRequest.time_zone')],
  ['text that the templates of one value produce', bytes(mostResolvedText)],
  ['resolved parameters of one call', bytes(mostParamText)],
  [
    'output of one call, as JSON',
    `${bytes(maxOutputLength)}, ${count(mostOutputValues)} values, ${bytes(mostHeapBytes)} in memory`,
  ],
  ['answer of a service, unpacked', `${bytes(mostAnswerBytes)}, ${count(mostOutputValues)} values of JSON`],
  ['parameters and outputs that one run stores', bytes(mostStoredBytes)],
  ['runs that are made again from each other (a chain)', count(mostRunsOfChain)],
  [
    'runs that one request makes again, and such requests that go on',
    `${numberAt('RerunFilter.run_ids.maxItems')}, ${count(mostOpenReruns)}`,
  ],
  ['time in which such a request starts runs', `${rerunHours} hours`],
  [
    'unknown outcomes that one request resolves',
    `${numberAt('ResolveRequest.item_indexes.maxItems')}, with ${bytes(mostResolvedBytes)} of outputs together`,
  ],
  ['failed items of a step that `GET /runs/{id}` lists', count(mostFailedItems)],
  [
    'sealed parameters of a failed item that `GET /runs/{id}` lists with its `value`',
    `${bytes(mostSealedBytes)}; \`GET /runs/{id}/steps/{step}/calls\` has the others`,
  ],
  [
    'outputs that `GET /runs/{id}` shows',
    `${bytes(shownOutputBytes)}; \`GET /runs/{id}/steps/{step}/output\` has the rest`,
  ],
  [
    'labels of a value',
    `${sameAt('MemoryRequest.labels.maxItems', 'FileForm.labels.maxItems')} of ${numberAt('WorkflowDefinition.categories.items.maxLength')} characters`,
  ],
  ['attempts at a call, crashes of its worker included', numberAt('ResolveRequest.attempt.maximum')],
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

const table = (title: string, rows: Rows): string =>
  [
    `## ${title}\n`,
    '| What | At most |',
    '| --- | --- |',
    ...rows.map(([what, limit]) => `| ${what} | ${limit} |`),
  ].join('\n')

/** Returns the page on limits, as Markdown. */
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

${table('Messages and triggers', messages)}

${table('Agents', agents)}

${table('People, keys and connections', people)}
`
  if (text.includes('NaN')) throw new Error('a limit has no number: see scripts/limits-page.ts')
  return format(text, { ...(await resolveConfig(limitsPath)), parser: 'markdown' })
}
