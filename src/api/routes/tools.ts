import { z } from 'zod'
import { getTool } from '../../tools/index.ts'
import { preconditionChecks, repeats } from '../../tools/kit/tool.ts'
import { readConnected, toolView } from '../../governance/tools/connections.ts'
import { notFound } from '../../governance/errors.ts'
import { organizationQuery } from '../query.ts'
import { pageOfTools } from '../tool-page.ts'
import { ok, route } from '../route.ts'
import { labels, listOf, listQuery, reversible, side } from '../schemas/common.ts'

const tool = z
  .strictObject({
    name: z.string(),
    description: z.string(),
    side_effect: side,
    output_labels: labels,
    params: z.record(z.string(), z.unknown()).meta({ description: 'JSON Schema of the parameters' }),
    output: z.record(z.string(), z.unknown()).meta({
      description: 'JSON Schema of the output of a call; a step with `for_each` returns a list of them',
    }),
    constraints: z.array(z.string()),
    categories: z.array(z.string()),
    connected: z.boolean(),
    destination: z.string().nullable().meta({
      description: 'the host to which your calls go; null: they stay here, or there is no connection',
    }),
    needs_connection: z.boolean(),
    available: z.boolean(),
    unavailable_because: z.string().nullable().meta({ description: 'null where the tool works' }),
    risk: z.enum(['low', 'medium', 'high']),
    reversible: reversible.meta({
      description:
        '`yes`: a call changes nothing. `by hand`: a person can take its effect back. `no`: people may have read it',
    }),
    repeat: z.enum(repeats).meta({
      description:
        'What happens to a call whose answer was lost. `free`, `transactional`: it is made again. `keyed`: it is made again with the same key. `findable`: it is looked for first. `unsafe`: a person decides',
    }),
    own_service: z
      .strictObject({
        integration: z.string(),
        repeat: z.literal('keyed'),
        knows_key_seconds: z.int().meta({
          description:
            'the call is made again for this many seconds after its first request; then a person decides',
        }),
      })
      .nullable()
      .meta({
        description:
          'the service that people may connect in place of the installation’s, and its own `repeat`; null: there is none',
      }),
    precondition: z
      .strictObject({
        of: z.string().meta({ description: 'what an approval covers besides the parameters' }),
        check: z.enum(preconditionChecks).meta({ description: 'how a change since the approval is found' }),
      })
      .nullable()
      .meta({ description: 'null: an approval covers the parameters and the connection alone' }),
    timeout_seconds: z
      .int()
      .meta({ description: 'the longest time of an attempt, if the step has no `timeout_seconds`' }),
  })
  .meta({ id: 'Tool' })

export const getTools = route({
  key: 'GET /tools',
  summary: 'The tools that workflow steps can call, sorted by name',
  tag: 'Tools',
  query: listQuery,
  responses: { 200: listOf(tool) },
  async handle({ context, caller, query }) {
    const connections = await readConnected(context.db, caller.organizationId, caller.userId)
    return ok(
      pageOfTools(query, (declaration) =>
        toolView(context.config.tools, connections, declaration, caller.userId),
      ),
    )
  },
})

export const getToolRoute = route({
  key: 'GET /tools/{name}',
  summary: 'One tool',
  tag: 'Tools',
  query: organizationQuery,
  responses: { 200: tool },
  async handle({ context, caller, params }) {
    const declaration = getTool(params.name)
    if (declaration === undefined) throw notFound('tool', params.name)
    const connections = await readConnected(context.db, caller.organizationId, caller.userId)
    return ok(toolView(context.config.tools, connections, declaration, caller.userId))
  },
})
