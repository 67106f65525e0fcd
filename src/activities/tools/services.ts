import type { Context } from '../../context.ts'
import { openMemory } from '../../governance/memory.ts'
import { memoryPlace } from '../../governance/sealing/places.ts'
import type { ToolServices } from './executor.ts'

/** The outside world as this process is configured to reach it. */
export function createToolServices(context: Pick<Context, 'config' | 'db' | 'sealer'>): ToolServices {
  const { tools } = context.config
  return {
    fileRoot: tools.fileRoot,
    smtpUrl: tools.smtpUrl,
    mailFrom: tools.mailFrom,
    memory: {
      async get(organizationId, key) {
        const row = await context.db
          .selectFrom('memory')
          .select(['value as plain', 'value_sealed as sealed', 'labels'])
          .where('organization_id', '=', organizationId)
          .where('key', '=', key)
          .where('deleted_at', 'is', null)
          .executeTakeFirst()
        if (row === undefined) return null
        return { value: await openMemory(context, organizationId, key, row), labels: row.labels }
      },
      seal: (organizationId, key, text) => context.sealer.seal(memoryPlace(organizationId, key), text),
    },
  }
}
