import { sql } from 'kysely'
import { z } from 'zod'
import { getTool, catalog } from '../../tools/index.ts'
import { preconditionChecks, repeats, type ToolDeclaration } from '../../tools/kit/tool.ts'
import { readConnected } from '../../governance/tools/connections.ts'
import { notFound } from '../../governance/errors.ts'
import { toolView } from '../../governance/tools/connections.ts'
import { organizationQuery } from '../query.ts'
import { ok, tagged } from '../route.ts'
import type { Inner } from '../subjects.ts'
import { anyJson, labels, listOf, listQuery, reversible, side, named, verdict } from '../schemas/common.ts'
import { inputsBodyLimit } from '../json-body.ts'
import { tryTool } from '../try-tool.ts'
import { labelSlug } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import { previewedStep } from './runs.ts'
import { pageWith } from '../schemas/example.ts'
import { pageOf, readCursor, type Page } from '../../governance/page.ts'

export function pageOfTools<T>(
  { limit, cursor }: { limit: number; cursor?: string | undefined },
  view: (declaration: ToolDeclaration) => T,
): Page<T> {
  const after = readCursor(cursor ?? null, /^[a-z][a-z0-9_]{0,99}$/) ?? ''
  const all: readonly ToolDeclaration[] = Object.values(catalog)
  const rest = all.filter(({ name }) => name > after).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return pageOf(rest, limit, ({ name }) => name, view)
}

export const knownTool: Inner = {
  word: 'tool',
  param: 'name',
  exists: ({ params }) => sql`${sql.lit(getTool(params['name'] ?? '') !== undefined)}`,
}

const { route } = tagged('Tools')

const tool = named('Tool', {
  name: z.string(),
  description: z.string(),
  side_effect: side.describe('what the tool declares'),
  side_effect_now: side.describe(
    'what a call with a text counts as over your present connection: `egress` if its host is not the service’s own',
  ),
  output_labels: labels,
  params: z.record(z.string(), z.unknown()).describe('JSON Schema of the parameters'),
  output: z
    .record(z.string(), z.unknown())
    .describe('JSON Schema of the output of a call; a step with `for_each` returns a list of them'),
  constraints: z.array(z.string()),
  categories: z.array(z.string()),
  connected: z.boolean(),
  destination: z
    .string()
    .nullable()
    .describe('the host to which your calls go; null: they stay here, or there is no connection'),
  needs_connection: z.boolean(),
  service: z
    .string()
    .nullable()
    .describe('the service that people connect for it; null: none, or only the installation’s'),
  available: z.boolean(),
  unavailable_because: z.string().nullable().describe('null where the tool works'),
  risk: z.enum(['low', 'medium', 'high']),
  reversible: reversible.describe(
    '`yes`: a call changes nothing. `by hand`: a person can take its effect back. `no`: people may have read it',
  ),
  repeat: z
    .enum(repeats)
    .describe(
      'What happens to a call whose answer was lost. `free`, `transactional`: it is made again. `keyed`: it is made again with the same key. `findable`: it is looked for first. `unsafe`: a person decides',
    ),
  own_service: z
    .strictObject({
      integration: z.string(),
      repeat: z.literal('keyed'),
      knows_key_seconds: z
        .int()
        .describe(
          'the call is made again for this many seconds after its first request; then a person decides',
        ),
    })
    .nullable()
    .describe(
      'the service that people may connect in place of the installation’s, and its own `repeat`; null: there is none',
    ),
  precondition: z
    .strictObject({
      of: z.string().describe('what an approval covers besides the parameters'),
      check: z.enum(preconditionChecks).describe('how a change since the approval is found'),
    })
    .nullable()
    .describe('null: an approval covers the parameters and the connection alone'),
  timeout_seconds: z.int().describe('the longest time of an attempt, if the step has no `timeout_seconds`'),
})

export const tryBody = named('ToolTrialRequest', {
  organization_id: z.string().optional(),
  params: z.record(z.string(), anyJson).describe('a text with braces is a text here'),
  labels: z.array(labelSlug).max(100).default([]).describe('labels that each parameter carries'),
  run: z.boolean().default(false).describe('makes the call'),
})
const trial = named('ToolTrial', {
  verdict: verdict.describe('the strictest verdict that the call can get'),
  executable: z.boolean().describe('false: the call would be refused at once'),
  not_executable_because: z.string().nullable(),
  step: previewedStep,
  run_id: z.string().nullable().describe('with `run`: the run that makes the call'),
})

export const toolRoutes = [
  route({
    key: 'GET /tools',
    needs: { scope: 'tools:read', role: 'viewer', subject: 'own' },
    summary: 'The tools that workflow steps can call, sorted by name',
    query: listQuery,
    example: {
      answers: {
        200: pageWith({
          name: 'file_read',
          description: 'Reads a text, Markdown or CSV file from the shared folder. A CSV also has its rows.',
          side_effect: 'read',
          side_effect_now: 'read',
          output_labels: ['internal'],
          params: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
          output: {
            type: 'object',
            properties: {
              path: { type: 'string' },
              text: { type: 'string' },
              media_type: { type: 'string' },
              size: { type: 'integer' },
              rows: { type: 'array', items: { type: 'object', additionalProperties: { type: 'string' } } },
              rows_problem: { type: 'string' },
            },
            required: ['path', 'text', 'media_type', 'size'],
          },
          constraints: ['max_response_size_kb'],
          categories: [],
          connected: true,
          needs_connection: true,
          service: null,
          available: true,
          unavailable_because: null,
          risk: 'medium',
          reversible: 'yes',
          repeat: 'free',
          own_service: null,
          precondition: null,
          timeout_seconds: 30,
          destination: null,
        }),
      },
    },
    responses: { 200: listOf(tool) },
    async handle({ context, caller, query }) {
      const connections = await readConnected(context.db, caller.organizationId, caller.userId)
      return ok(
        pageOfTools(query, (declaration) =>
          toolView(context.config.tools, connections, declaration, caller.userId),
        ),
      )
    },
  }),
  route({
    key: 'GET /tools/{name}',
    needs: { scope: 'tools:read', role: 'viewer', subject: 'own' },
    inner: [knownTool],
    summary: 'One tool',
    query: organizationQuery,
    responses: { 200: tool },
    async handle({ context, caller, params }) {
      const declaration = getTool(params.name)
      if (declaration === undefined) throw notFound('tool', params.name)
      const connections = await readConnected(context.db, caller.organizationId, caller.userId)
      return ok(toolView(context.config.tools, connections, declaration, caller.userId))
    },
  }),
  route({
    key: 'POST /tools/{name}/try',
    needs: { scope: 'tools:read', role: 'member', subject: 'own' },
    inner: [knownTool],
    audit: ['workflow.deployed', 'workflow.updated', 'workflow.execute', 'approval.requested'],
    summary: 'Ask what would be decided about one call of yours, and with `run` make it',
    description:
      'With `run`, the call is a run of your workflow `Try TOOL`, governed like any other; this needs the scopes `workflows:write` and `runs:write`.',
    bodyLimit: inputsBodyLimit,
    body: tryBody,
    responses: { 200: trial },
    async handle({ context, caller, params, body, once }) {
      const declaration = getTool(params.name)
      if (declaration === undefined) throw notFound('tool', params.name)
      const request = {
        tool: declaration,
        params: body.params as JsonObject,
        labels: body.labels,
        run: body.run,
        once,
      }
      return ok(await tryTool(context, caller, request))
    },
  }),
]
