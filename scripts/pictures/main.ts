import { fileURLToPath } from 'node:url'
import { launchBrowser } from '../../test/support/browser.ts'
import { startSmtpSink } from '../../test/support/smtp-sink.ts'
import { stackHome, startStack } from '../../test/support/start-stack.ts'
import { createCamera } from './camera.ts'
import { ownersPages, story, tooLate, waitingPages } from './pages.ts'
import { newPeople, withSecondFactor } from './people.ts'
import { makeWorld } from './world.ts'

/*
 * `npm run pictures`: writes the pictures in docs/pictures. Starts a stack of its own with a small organization, and
 * visits its pages with a browser. Runs only on Linux on x64, because the npm packages contain no browser for other
 * systems.
 */

const tell = (line: string): void => void process.stdout.write(`${line}\n`)
const files = fileURLToPath(new URL('files', import.meta.url))
const endings: (() => Promise<unknown>)[] = []

try {
  const sink = await startSmtpSink()
  endings.push(() => sink.close())
  const home = stackHome()
  endings.push(() => home.remove())
  const stack = await startStack({
    dataDir: home.dataDir,
    env: { SMTP_URL: sink.url, SIGN_UP: 'invited', FILE_ROOT: files },
  })
  tell(`the stack answers at ${stack.baseUrl}`)
  const world = await makeWorld(stack, sink)
  const browser = await launchBrowser()
  endings.push(() => browser.close())
  const camera = createCamera(browser, tell)
  const { page, code } = await withSecondFactor(camera, world, 'approver')
  await waitingPages(camera, world, page)
  await tooLate(camera, world, page)
  await newPeople(camera, world, sink)
  await story(camera, world, code)
  await ownersPages(camera, world)
  camera.check()
} catch (error) {
  process.stderr.write(`${(error as Error).stack}\n`)
  process.exitCode = 1
} finally {
  for (const end of endings.reverse()) await end()
}
