import type { Page } from 'playwright-core'
import type { Camera, Heights } from './camera.ts'
import { at, press, signIn } from './people.ts'
import type { World } from './world.ts'

/* The pages of signed-in people, and the story of one approval. */

/** The maximum heights for pictures of whole pages. A higher picture would not be useful in a document. */
const whole: Heights = { phone: 3_600, wide: 2_400 }
const most: Heights = { phone: 1_500, wide: 1_000 }

/** Takes pictures of the pages while all approvals still wait. */
export async function waitingPages(camera: Camera, world: World, page: Page): Promise<void> {
  const { report, waiting, rejected, unknown, session } = world
  const pages: readonly (readonly [string, string, Heights?])[] = [
    ['approvals', '/approvals', most],
    ['approval-change', `/approvals/${waiting.change}`, most],
    ['approval-agent', `/approvals/${waiting.push}`, most],
    ['approval-edit', `/approvals/${waiting.edit}`, most],
    ['approval-run', `/approvals/${waiting.wholeRun}`, most],
    ['rejected', `/approvals/${rejected}`, most],
    ['runs', '/runs', most],
    ['run', `/runs/${report.run}`, whole],
    ['run-unknown', `/runs/${unknown}`, most],
    ['step', `/runs/${report.run}/steps/teams`, most],
    ['sessions', '/sessions', most],
    ['session', `/sessions/${session}`, whole],
    ['account', '/account', whole],
    ['not-found', '/runs/run_01M84JRMXWJCN4SAPKWPR67K5S'],
  ]
  for (const [name, path, heights] of pages) {
    await page.goto(at(world, path))
    await camera.take(page, name, heights)
  }
  await page.goto(at(world, '/approvals'))
  await page.locator('summary', { hasText: 'Filter' }).click()
  await camera.take(page, 'approvals-filter', most)
  await page.goto(at(world, '/runs'))
  await page.locator('summary', { hasText: 'Filter' }).click()
  await camera.take(page, 'runs-filter')
}

/** Takes pictures of the pages of an owner: first those that only show, then those of keys. */
export async function ownersPages(camera: Camera, world: World): Promise<void> {
  const { owner } = world.as
  const invitation = { email: 'nora@larkspur.example', role: 'member', send_mail: false }
  await owner.good('POST', `/organizations/${world.organization}/invitations`, invitation)
  const page = await camera.open()
  await page.goto(at(world, '/people'))
  await signIn(page, world, 'owner')
  await page.waitForURL(at(world, '/people'))
  await camera.take(page, 'people', whole)
  for (const [name, path] of await shownPages(world)) {
    await page.goto(at(world, path))
    await camera.take(page, name, most)
  }
  await page.goto(at(world, '/keys/new?for=runs'))
  await camera.take(page, 'key-form', whole)
  await page.getByLabel('Name').fill('nightly report')
  await press(page, 'Create the key')
  await page.locator('#secret').waitFor()
  // The real key of this stack, which ends with it, gives way to one that is none.
  await page.locator('#secret').evaluate((code) => (code.textContent = `csk_live_${'x'.repeat(38)}`))
  await camera.take(page, 'key-new')
  await page.goto(at(world, '/keys'))
  await camera.take(page, 'keys', most)
}

/** The name of the picture, and the path of the page. */
async function shownPages({ as, organization }: World): Promise<readonly (readonly [string, string])[]> {
  const { data: workflows } = await as.owner.good<{ data: { id: string; name: string }[] }>(
    'GET',
    '/workflows',
  )
  const { data: rules } = await as.owner.good<{ data: { id: string }[] }>(
    'GET',
    `/organizations/${organization}/rules`,
  )
  const report = workflows.find(({ name }) => name === 'Quarterly report')?.id ?? ''
  return [
    ['home', '/'],
    ['workflows', '/workflows'],
    ['workflow', `/workflows/${report}`],
    ['editor', `/workflows/${report}/edit`],
    ['trigger-form', `/triggers?new=schedule&workflow=${report}`],
    ['rules', '/rules'],
    ['rule', `/rules/${rules[0]?.id ?? ''}`],
    ['try', '/rules/try'],
    ['tools', '/tools'],
    ['tool', '/tools/mail_send'],
    ['connections', '/connections'],
    ['data', '/data'],
    ['settings', '/settings'],
    ['freeze', '/freeze'],
    ['audit', '/audit'],
    ['templates', '/templates'],
    ['notifications', '/notifications'],
    ['webhooks', '/webhooks'],
    ['reports', '/reports'],
    ['organizations', '/organizations'],
    ['health', '/health'],
    ['search', '/search?q=report'],
  ]
}

/** Takes a picture of the page after a vote that comes too late: somebody else has already rejected the approval. */
export async function tooLate(camera: Camera, world: World, page: Page): Promise<void> {
  // Without its script, the page does not learn that somebody else has decided.
  const still = await camera.open({ javaScriptEnabled: false })
  await still.context().addCookies(await page.context().cookies())
  await still.goto(at(world, `/approvals/${world.waiting.late}`))
  await world.as.admin.decide(world.waiting.late, 'reject')
  await press(still, 'Approve')
  await still.getByRole('alert').waitFor()
  await camera.take(still, 'too-late', most)
}

/**
 * Takes pictures of one story: a person opens the link to an approval, signs in and votes. After the vote, the run
 * completes.
 */
export async function story(camera: Camera, world: World, code: string): Promise<void> {
  const { run, mail } = world.report
  const page = await camera.open()
  await page.goto(at(world, `/approvals/${mail}`))
  await camera.take(page, 'sign-in')
  await signIn(page, world, 'approver')
  await page.waitForURL('**/console/sign-in/code?**')
  await camera.take(page, 'code')
  await page.getByLabel('Code of', { exact: false }).fill(code)
  await press(page, 'Continue')
  await page.waitForURL(at(world, `/approvals/${mail}`))
  await camera.take(page, 'approval', { wide: 1_000 })
  await camera.take(page, 'approval-whole', { phone: 2_400, wide: 1_600 })
  await page.getByLabel('Comment').fill('Read it, fine.')
  await press(page, 'Approve')
  await page.locator('.outcome .badge', { hasText: 'Completed' }).nth(1).waitFor()
  await camera.take(page, 'approved', { wide: 1_000 })
  await page.getByRole('link', { name: 'Open the run' }).click()
  await page.waitForURL(at(world, `/runs/${run}`))
  await camera.take(page, 'run-completed', whole)
}
