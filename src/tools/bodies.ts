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
 * Returns the functions of a tool. Returns undefined if the catalogue has no such tool. The module of a service is
 * loaded at the first call of one of its tools: the clients of some services are large, and a worker would load them
 * all before it is ready. The functions are looked up at each call, because tests replace them.
 */
export async function bodiesOf(tool: string): Promise<SomeBodies | undefined> {
  const folder = folderOf.get(tool)
  if (folder === undefined) return undefined
  const { run } = (await import(`./${folder}/run.ts`)) as { run: Readonly<Record<string, SomeBodies>> }
  return run[tool]
}
