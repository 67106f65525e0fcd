import { format, resolveConfig } from 'prettier'
import { catalog } from '../src/tools/index.ts'
import { assumptions } from '../test/tools/faults/services.ts'
import { standIns } from './stand-ins.ts'
import { servicesSection, table } from './tools-services.ts'
import type { OwnService, Precondition, ToolDeclaration } from '../src/tools/kit/tool.ts'

export const toolsPath = new URL('../docs/tools.md', import.meta.url)

const tools: readonly ToolDeclaration[] = Object.values(catalog)
const words = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(', ')

/** Returns the parameters of a tool in Markdown. A required parameter is bold. */
const paramsOf = ({ params }: ToolDeclaration): string =>
  Object.entries(params.shape)
    .map(([name, field]) => (field.safeParse(undefined).success ? `\`${name}\`` : `**\`${name}\`**`))
    .join(', ')

const crash: Record<ToolDeclaration['repeat'], string> = {
  free: 'nothing: it is made again',
  transactional: 'nothing: it is made again',
  keyed: 'nothing: it is made again with its key',
  findable: 'nothing: it is looked for first; a person decides if the search has no answer for 15 minutes',
  unsafe: 'an unknown outcome: a person decides',
}

/**
 * Says what happens to a call of the tool after a crash. If the tool has no `findableAfterSeconds`, a search without a
 * result does not prove that the call did not happen.
 */
const afterCrash = ({ repeat, findableAfterSeconds, ownService, crashLeaves }: ToolDeclaration): string => {
  if (repeat === 'findable' && findableAfterSeconds === undefined)
    return 'it is looked for; if it is not found, a person decides'
  const more = [crashLeaves, ownService && ofOwnService(ownService)].filter((clause) => clause !== undefined)
  return [crash[repeat], ...more].join('; ')
}

const ofOwnService = ({ integration, knowsKeySeconds }: OwnService): string =>
  `with a connection to \`${integration}\` it is sent again with its key for ${knowsKeySeconds / 3_600} hours, ` +
  'and a person decides if no answer says what became of it'

const reversed: Record<ToolDeclaration['reversible'], string> = {
  yes: 'yes: it changes nothing',
  'by hand': 'by hand',
  no: 'no',
}

const needs = ({ connection, ownService }: ToolDeclaration): string => {
  const own = ownService === undefined ? '' : `, or a connection to \`${ownService.integration}\``
  const named: Record<string, string> = { none: 'nothing', installation: `the operator’s connection${own}` }
  return named[connection] ?? `a connection to \`${connection}\``
}

const checked: Record<Precondition['check'], string> = {
  transaction: 'in the transaction of the write',
  before: 'right before the call is sent; a later change is not seen',
  call: 'by the call, which acts only on what was approved',
}

const decides = (): string =>
  table(
    ['Tool', 'Side effect', 'Labels', 'Risk', 'Categories', 'Limits'],
    tools.map(({ name, sideEffect, outputLabels, risk, categories, constraints }) => [
      `\`${name}\``,
      sideEffect,
      words(outputLabels),
      risk,
      words(categories),
      words(Object.keys(constraints)),
    ]),
  )

const takes = (): string =>
  table(
    ['Tool', 'Use', 'Parameters', 'Needs', 'A crash leaves', 'Reversible'],
    tools.map((tool) => [
      `\`${tool.name}\``,
      tool.description,
      paramsOf(tool),
      needs(tool),
      afterCrash(tool),
      reversed[tool.reversible],
    ]),
  )

const covers = (): string =>
  table(
    ['Tool', 'Covers', 'Checked'],
    tools.flatMap(({ name, precondition }) =>
      precondition === undefined ? [] : [[`\`${name}\``, precondition.of, checked[precondition.check]]],
    ),
  )

const checks = (): string =>
  table(
    ['Service', 'Stand-in', 'Checked', 'Not checked'],
    standIns.map(({ service, standIn, checked: what, not }) => [service, standIn, what, not]),
  )

const assumed = (): string =>
  table(
    ['Service', 'Assumption', 'Page'],
    assumptions.map(({ service, what, page, withoutPage = '' }) => [
      service,
      what,
      page === null ? `none: ${withoutPage}` : `<${page}>`,
    ]),
  )

const text = async (): Promise<string> => `# Tools

<!-- Written by \`npm run openapi\` from src/tools. -->

Steps of workflows call these tools. \`GET /tools\` shows them with the JSON Schema of their parameters and output, and says which of them
work in your organization. Rules, [policies](policies.md) and workflows can name every tool. A tool that is not connected has
\`"available": false\`, a workflow that uses it is saved with a warning, and its calls fail with \`tool_not_available\`.
The answer also has what the tables below say: \`repeat\`, \`own_service\`, \`reversible\`, \`precondition\` and \`timeout_seconds\`.

## What decides about a call

Rules match the side effect: \`read\` fetches data, \`write\` changes something, and \`egress\` delivers content to people or places. The
output of a call carries the labels below, besides those of the call's inputs. The [risk](reference/plans.md#risk) and the categories can
[hold a whole run](workflows.md#runs-that-wait-before-they-start). The limits are those that a tool policy can set.

${decides()}

## What a call takes

A step must give the parameters in bold. [Effects](reference/effects.md) says what follows a crash. _Reversible_ says whether the effect
can be taken back: \`by hand\` means that a person can delete or change what the call has made, and \`no\` that people may have read it
already.

${takes()}

## What an approval covers

An approval covers the parameters of its call, and the connection that the call uses. For these tools it also covers what the call changes,
as the approvers saw it. If one of these has changed meanwhile, the call is [held again](reference/approvals.md#what-the-approvers-saw).

${covers()}

## Services

Each service that can be [connected](connections.md#connect), with its credential and the errors of its calls. A field with \`?\` may be left
out. [Other errors](connections.md#what-an-error-says) can come from every service.

${await servicesSection()}

## What the stand-ins are checked against

Tests run against stand-ins on one machine. Where a registry carries the description that a service publishes, the stand-in refuses each
request that it does not have, and its own answers are checked in the same way.

${checks()}

## Assumptions about services

No stand-in can show these facts. Most are taken from pages of the services; for the others the table says why there is no page:

${assumed()}
`

/** Returns the page on the tools of workflow steps, as Markdown. */
export async function toolsPage(): Promise<string> {
  return format(await text(), { ...(await resolveConfig(toolsPath)), parser: 'markdown' })
}
