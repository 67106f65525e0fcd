import type { ToolName } from '../../../src/tools/index.ts'
import { github } from './github.ts'
import { jira } from './jira.ts'
import { mail } from './mail.ts'
import type { FaultService } from './service.ts'
import { googleCalendar, googleDocs, googleSheets } from './google.ts'
import { slack } from './slack.ts'
import { trello } from './trello.ts'

export const services: readonly FaultService[] = [
  github,
  googleCalendar,
  googleDocs,
  googleSheets,
  slack,
  jira,
  trello,
  mail,
]

export const titled = (all: readonly FaultService[]) =>
  all.map((service) => [[service.name, service.part].filter(Boolean).join(' '), service] as const)

export const byTitle = titled(services)

/** Writing tools without a service and its stand-in, with the tests of their faults. */
export const testedElsewhere: Readonly<Partial<Record<ToolName, readonly string[]>>> = {
  // The value and the outcome of this call commit together in our own database, so no request can be lost.
  memory_set: ['test/activities/memory.test.ts', 'test/e2e/commit-points.test.ts'],
}
