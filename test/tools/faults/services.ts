import { readdirSync } from 'node:fs'
import { integrationNamed, type ToolName } from '../../../src/tools/index.ts'
import type { FaultService } from './service.ts'

const folder = new URL('../services/', import.meta.url)
const modules = await Promise.all(
  readdirSync(folder)
    .sort()
    .map(async (file) => (await import(new URL(file, folder).href)) as Readonly<Record<string, unknown>>),
)

/** The entries that the files of `test/tools/services` export. */
export const services: readonly FaultService[] = modules
  .flatMap((module) => Object.values(module))
  .filter((each): each is FaultService => typeof each === 'object' && each !== null && 'isWrite' in each)

/** One entry of each service: all entries of a service share its stand-in and its connection. */
export const apart = services.filter(
  (part, index) => services.findIndex(({ name }) => name === part.name) === index,
)

/** The parameters of one call of each tool of an entry. Calls that write take the text. */
export const callsOf = ({ tools, reads, place }: FaultService, text: string) => [
  ...Object.entries(tools).map(([tool, { params }]) => [tool, params(text, place)] as const),
  ...Object.entries(reads?.tools ?? {}).map(([tool, params]) => [tool, params(place)] as const),
]

export const titled = (all: readonly FaultService[]) =>
  all.map((service) => [[service.name, service.part].filter(Boolean).join(' '), service] as const)

export const byTitle = titled(services)

export const titleOf = ({ name }: FaultService): string => integrationNamed(name)?.title ?? name

/** What the services are assumed to do. */
export const assumptions = services.flatMap((service) =>
  service.assumptions.map((each) => ({ service: titleOf(service), ...each })),
)

/** Writing tools without a service and its stand-in, with the tests of their faults. */
export const testedElsewhere: Readonly<Partial<Record<ToolName, readonly string[]>>> = {
  // The value and the outcome of this call commit together in our own database, so no request can be lost.
  memory_set: ['test/activities/memory.test.ts', 'test/e2e/commit-points.test.ts'],
}
