import type { Context } from '../../context.ts'
import type { Json } from '../../policy/types.ts'
import type { ToolServices } from './executor.ts'

/** The outside world as this process is configured to reach it. */
export function createToolServices(context: Pick<Context, 'config' | 'db'>): ToolServices {
  const { tools } = context.config
  return {
    fileRoot: tools.fileRoot,
    smtpUrl: tools.smtpUrl,
    mailFrom: tools.mailFrom,
    memory: {
      async get(organizationId, key) {
        const row = await context.db
          .selectFrom('memory')
          .select(['value', 'labels'])
          .where('organization_id', '=', organizationId)
          .where('key', '=', key)
          .where('deleted_at', 'is', null)
          .executeTakeFirst()
        return row === undefined ? null : { value: JSON.parse(row.value) as Json, labels: row.labels }
      },
    },
  }
}
