import type { Context, Unsealing } from '../governance/context.ts'
import { isTooLarge, mostValues } from '../shared/json-size.ts'
import { slackAccountOf } from '../governance/people/slack-accounts.ts'
import { keptColumns, memoryRevision, openMemory, sealMemory } from '../governance/tools/memory.ts'
import { UnsealError } from '../governance/sealing/format.ts'
import type { Json } from '../policy/types.ts'
import { priceOf } from '../shared/model-prices.ts'
import { ToolError, type ToolServices } from '../tools/kit/executor.ts'
import { connectionIfAny, connectionOfCall } from './service-connection.ts'

/**
 * `actAs` gets the name of each connection before it is used; null if the call goes through the installation.
 */
export function createToolServices(
  context: Context,
  actAs: (account: string | null) => void = () => {},
  requireFresh?: () => void,
): ToolServices {
  const { tools } = context.config
  return {
    fileRoot: tools.fileRoot,
    smtpUrl: tools.smtpUrl,
    mailFrom: tools.mailFrom,
    priceOf: (model) => priceOf(tools.modelPrices, model),
    async connection(call, tool, integration) {
      const connection = await connectionOfCall(context, call, tool, integration, requireFresh)
      actAs(connection.name)
      return connection
    },
    async connectionIfAny(call, tool, integration) {
      const connection = await connectionIfAny(context, call, tool, integration, requireFresh)
      actAs(connection?.name ?? null)
      return connection
    },
    slackAccount: ({ organizationId, requester }) =>
      slackAccountOf(context.db, { organizationId, userId: requester.userId }),
    memory: memoryOf(context),
  }
}

function memoryOf({ db, sealer }: Unsealing): ToolServices['memory'] {
  return {
    async get(organizationId, key) {
      const row = await db
        .selectFrom('memory')
        .select([...keptColumns, 'labels'])
        .where('organization_id', '=', organizationId)
        .where('key', '=', key)
        .where('deleted_at', 'is', null)
        .executeTakeFirst()
      if (row === undefined) return null
      const text = (await openMemory(sealer, organizationId, key, row)) ?? 'null'
      if (isTooLarge(text))
        throw new ToolError('output_too_large', `the value has more than ${mostValues} values`)
      return { value: JSON.parse(text) as Json, labels: row.labels }
    },
    async state(organizationId, key) {
      const row = await db
        .selectFrom('memory')
        .select([...keptColumns, 'labels', 'revision', 'deleted_at'])
        .where('organization_id', '=', organizationId)
        .where('key', '=', key)
        .executeTakeFirst()
      const state = { labels: row?.labels ?? [], revision: memoryRevision(row) }
      if (row === undefined || row.deleted_at !== null) return { ...state, text: null, isBroken: false }
      try {
        const text = await openMemory(sealer, organizationId, key, row)
        return { ...state, text, isBroken: false }
      } catch (error) {
        if (!(error instanceof UnsealError)) throw error
        return { ...state, text: null, isBroken: true }
      }
    },
    seal: (organizationId, key, text) => sealMemory(sealer, organizationId, key, text),
  }
}
