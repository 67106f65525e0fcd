import type { SomeBodies } from './kit/executor.ts'
import { integrationNamed, services } from './index.ts'

/** The tools of one service are in the folder of its connection, e.g. those of Google's calendar in `google`. */
const folderOf: ReadonlyMap<string, string> = new Map(
  Object.entries(services).flatMap(([service, tools]) =>
    Object.values(tools).map(({ name, connection }) => {
      const folder = integrationNamed(connection) === undefined ? service : connection
      return [name, folder] as const
    }),
  ),
)

/**
 * Undefined for an unknown tool. A service is loaded at its first call, because some clients are large. The
 * functions are looked up at each call, because tests replace them.
 */
export async function bodiesOf(tool: string): Promise<SomeBodies | undefined> {
  const folder = folderOf.get(tool)
  if (folder === undefined) return undefined
  const { run } = (await import(`./${folder}/run.ts`)) as { run: Readonly<Record<string, SomeBodies>> }
  return run[tool]
}
