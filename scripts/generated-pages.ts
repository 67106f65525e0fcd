import { attacksPage, attacksPath } from './attacks-page.ts'
import { auditEventsPage, auditEventsPath } from './audit-events-page.ts'
import { limitsPage, limitsPath } from './limits-page.ts'
import { toolsPage, toolsPath } from './tools-page.ts'

/**
 * The pages in docs that are generated from the code and the tests. Each entry has the name, the path, and the function
 * that returns the text.
 */
export const generatedPages = [
  ['reference/audit-events.md', auditEventsPath, auditEventsPage],
  ['tools.md', toolsPath, toolsPage],
  ['reference/limits.md', limitsPath, limitsPage],
  ['agents-reference.md', attacksPath, attacksPage],
] as const
