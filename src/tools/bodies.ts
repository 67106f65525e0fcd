import type { Bodies, SomeBodies } from './kit/executor.ts'
import { services } from './index.ts'

type Services = typeof services
type Load<Name extends keyof Services> = () => Promise<{ readonly run: Bodies<Services[Name]> }>

/**
 * The modules with the bodies of each service. A module is loaded at the first call of one of its tools. The clients of
 * some services are large, and a worker would load them all before it is ready.
 */
const modules: { readonly [Name in keyof Services]: Load<Name> } = {
  files: () => import('./files/run.ts'),
  memory: () => import('./memory/run.ts'),
  mail: () => import('./mail/run.ts'),
  calendar: () => import('./google/run.ts'),
  slack: () => import('./slack/run.ts'),
  github: () => import('./github/run.ts'),
  jira: () => import('./jira/run.ts'),
  trello: () => import('./trello/run.ts'),
  google: () => import('./google/run.ts'),
  search: () => import('./search/run.ts'),
  llm: () => import('./llm/run.ts'),
}

type Loads = () => Promise<{ readonly run: Readonly<Record<string, SomeBodies>> }>
const moduleOf: ReadonlyMap<string, Loads> = new Map(
  Object.entries(services).flatMap(([service, tools]) =>
    Object.keys(tools).map((tool) => [tool, modules[service as keyof Services] as unknown as Loads] as const),
  ),
)

/**
 * Returns the functions of a tool. Returns undefined if the catalogue has no such tool. The functions are looked up at
 * each call, because tests replace them.
 */
export async function bodiesOf(tool: string): Promise<SomeBodies | undefined> {
  return (await moduleOf.get(tool)?.())?.run[tool]
}
