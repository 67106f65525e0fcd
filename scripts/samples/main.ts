import { turnApprovalsOn } from '../../src/demo/prepare.ts'
import { show } from '../../src/demo/show.ts'
import { correction } from './correction.ts'
import { customerMailing } from './customer-mailing.ts'
import { documentReview } from './document-review.ts'
import { expense, holidayRequest, refund } from './forms.ts'
import { slashCommand, welcomeSequence } from './hooks.ts'
import { invoiceCheck } from './invoice-check.ts'
import { issuesToSheet } from './issues-to-sheet.ts'
import { onboarding } from './onboarding.ts'
import { releaseNotes } from './release-notes.ts'
import { connectServices, emulatorName, type Session } from './session.ts'
import { triage } from './triage.ts'
import { weeklyReport } from './weekly-report.ts'

/*
 * `npm run samples [-- NAME...]`: runs all workflows in samples/workflows, or only the named ones. Stand-ins on this
 * machine replace all services. Uses the stack that runs on DATA_DIR, or starts its own. Exits with 0 only if every
 * check was successful, and with 2 for an unknown name.
 */

/** The samples in the order in which they run. Each key is the name of a file in samples/workflows. */
const samples = new Map<string, (session: Session) => Promise<void>>([
  ['triage-issues', triage],
  ['release-notes', releaseNotes],
  ['invoice-check', invoiceCheck],
  ['weekly-report', weeklyReport],
  ['issues-to-sheet', issuesToSheet],
  ['onboarding', onboarding],
  ['document-review', documentReview],
  ['expense', expense],
  ['holiday-request', holidayRequest],
  ['refund', refund],
  ['report-announcement', correction],
  ['slash-command', slashCommand],
  // These connect Resend. From then on, all mails of the samples go there, so they run last.
  ['welcome-sequence', welcomeSequence],
  ['customer-mailing', customerMailing],
])

const everybody = 'its connections would serve the runs of everybody in the organization'
/** Those that run only on a Countersign of their own, and why. */
const alone = new Map([
  ['weekly-report', 'the operator sets the address of Jira'],
  ['slash-command', everybody],
  ['welcome-sequence', everybody],
])

const named = process.argv.slice(2)
const unknown = named.filter((name) => !samples.has(name))
if (unknown.length > 0) {
  process.stderr.write(
    `there is no sample \`${unknown.join('`, `')}\`: name one of ${[...samples.keys()].join(', ')}\n`,
  )
  process.exit(2)
}

/** The emulators are development packages, which an installation may lack. */
const services = await import('./services.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  process.stderr.write('the emulators are not installed: run `npm ci` without `--omit=dev`\n')
  return process.exit(1)
})

const running = await services.startServices()
// This sets the address of Jira for the samples' own stack. A stack that already ran before keeps its own address.
process.env['TRACKER_BASE_URL'] = running.jiraUrl

process.exit(
  await show('samples', async (stage) => {
    stage.atEnd('emulators', running.close)
    const left = stage.stack.isOthers ? alone : new Map<string, string>()
    for (const name of named.filter((each) => left.has(each)))
      throw new Error(
        `${name} runs only on a Countersign of its own, because ${left.get(name)}: ` +
          'run it with DATA_DIR set to an empty folder',
      )
    const tag = Math.random().toString(36).slice(2, 8)
    const what =
      `rules named \`sample ${tag}\`, uploads, connections of the admin named \`${emulatorName}\`, ` +
      'the setting of approvals'
    const changes = await turnApprovalsOn(stage, 'admin', what)
    const session: Session = { ...stage, changes, services: running, tag }
    stage.tell.step('The admin connects GitHub, Slack, Google, Trello and a language model')
    await connectServices(session)
    for (const [name, why] of left) stage.tell.line(`${name} is left out: ${why}`)
    for (const [name, run] of samples)
      if (!left.has(name) && (named.length === 0 || named.includes(name))) await run(session)
  }),
)
