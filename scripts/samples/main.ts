import { turnApprovalsOn } from '../../src/demo/changes.ts'
import { show } from '../../src/demo/show.ts'
import { customerMailing } from './customer-mailing.ts'
import { documentReview } from './document-review.ts'
import { invoiceCheck } from './invoice-check.ts'
import { issuesToSheet } from './issues-to-sheet.ts'
import { onboarding } from './onboarding.ts'
import { releaseNotes } from './release-notes.ts'
import { connectServices, emulatorName, type Session } from './session.ts'
import { triage } from './triage.ts'
import { weeklyReport } from './weekly-report.ts'

/*
 * `npm run samples`: runs the workflows in samples/workflows, with stand-ins of all services on this machine. Uses the
 * stack that runs on DATA_DIR, or starts its own. Exits with 0 only if every check held.
 */

/** The emulators are development packages, which an installation may lack. */
const services = await import('./services.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  process.stderr.write('the emulators are not installed: run `npm ci` without `--omit=dev`\n')
  return process.exit(1)
})

const running = await services.startServices()
// For the samples' own stack. A stack that already ran before keeps its own address of Jira.
process.env['TRACKER_BASE_URL'] = running.jiraUrl

process.exit(
  await show('samples', async (stage) => {
    stage.atEnd('emulators', running.close)
    const tag = Math.random().toString(36).slice(2, 8)
    const what =
      `rules named \`sample ${tag}\`, uploads, connections of the member named \`${emulatorName}\`, ` +
      'the setting of approvals'
    const changes = await turnApprovalsOn(stage, 'admin', what)
    const session: Session = { ...stage, changes, services: running, tag }
    stage.tell.step('The member connects GitHub, Slack, Google, Trello and a language model')
    await connectServices(session)
    await triage(session)
    await releaseNotes(session)
    await invoiceCheck(session)
    await weeklyReport(session)
    await issuesToSheet(session)
    await onboarding(session)
    await documentReview(session)
    // This sample runs last, because from then on its connection sends all mails of the member.
    await customerMailing(session)
  }),
)
