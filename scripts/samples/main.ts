import { turnApprovalsOn } from '../../src/demo/changes.ts'
import { show } from '../../src/demo/show.ts'
import { invoiceCheck } from './invoice-check.ts'
import { releaseNotes } from './release-notes.ts'
import { connectServices, emulatorName, type Session } from './session.ts'
import { triage } from './triage.ts'

/*
 * `npm run samples`: the workflows in samples/workflows, with GitHub, Slack and a language model that run on this
 * machine. It uses the stack that runs on DATA_DIR, or its own. Exits with 0 only if every check held.
 */

/** The emulators are development packages, which an installation may lack. */
const services = await import('./services.ts').catch((error: NodeJS.ErrnoException) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  process.stderr.write('the emulators are not installed: run `npm ci` without `--omit=dev`\n')
  return process.exit(1)
})

process.exit(
  await show('samples', async (stage) => {
    const running = await services.startServices()
    stage.atEnd('emulators', running.close)
    const tag = Math.random().toString(36).slice(2, 8)
    const what =
      `rules named \`sample ${tag}\`, uploads, connections of the member named \`${emulatorName}\`, ` +
      'the setting of approvals'
    const changes = await turnApprovalsOn(stage, 'admin', what)
    const session: Session = { ...stage, changes, services: running, tag }
    stage.tell.step('The member connects GitHub, Slack and a language model')
    await connectServices(session)
    await triage(session)
    await releaseNotes(session)
    await invoiceCheck(session)
  }),
)
