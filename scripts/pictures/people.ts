import type { Page } from 'playwright-core'
import { totp } from '../../test/api/browser.ts'
import type { Person } from '../../test/support/client.ts'
import type { SmtpSink } from '../../test/support/smtp-sink.ts'
import { until } from '../../test/stack/until.ts'
import type { Camera } from './camera.ts'
import { addresses, type World } from './world.ts'

/* Takes pictures of the pages of accounts: sign-in, second factor, invitation, sign-up, new password. */

export const press = (page: Page, name: string): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click()

export const at = ({ stack }: World, path: string): string => `${stack.baseUrl}/console${path}`

export async function signIn(page: Page, { stack }: World, who: Person): Promise<void> {
  const { [who]: person } = stack.bootstrap<World['as']['owner']['bootstrap']>().users
  await page.getByLabel('E-mail address').fill(addresses[who])
  await page.getByLabel('Password').fill(person.password)
  await press(page, 'Sign in')
}

/** Signs a person in and adds a second factor. Returns the browser window, and a code for a later sign-in. */
export async function withSecondFactor(
  camera: Camera,
  world: World,
  who: Person,
): Promise<{ page: Page; code: string }> {
  const page = await camera.open()
  await page.goto(at(world, '/second-factor'))
  await signIn(page, world, who)
  await page.waitForURL(at(world, '/second-factor'))
  const { [who]: person } = world.stack.bootstrap<World['as']['owner']['bootstrap']>().users
  await page.getByLabel('Password', { exact: true }).fill(person.password)
  await press(page, 'Continue')
  const key = ((await page.locator('.steps code').first().textContent()) ?? '').replaceAll(' ', '')
  const [code = ''] = await page.locator('.codes code').allTextContents()
  await camera.take(page, 'second-factor', { phone: 1_100, wide: 1_100 })
  await page.getByLabel('Code', { exact: true }).fill(totp(key))
  await press(page, 'Turn it on')
  await page.waitForURL(at(world, '/'))
  return { page, code }
}

/** Takes pictures of the pages for people who have no account yet, or who have lost their password. */
export async function newPeople(camera: Camera, world: World, sink: SmtpSink): Promise<void> {
  const email = 'nora@larkspur.example'
  const invitation = { email, role: 'member' }
  await world.as.owner.good('POST', `/organizations/${world.organization}/invitations`, invitation)
  const page = await camera.open()
  await page.goto(world.stack.baseUrl + (await linkIn(sink, 'An invitation to Countersign', email)))
  await camera.take(page, 'invitation')
  await page.goto(at(world, '/sign-up'))
  await page.getByLabel('Your name').fill('Nora')
  await page.getByLabel('E-mail address').fill(email)
  await camera.take(page, 'sign-up')
  await page.getByLabel('New password').fill('a long password')
  await press(page, 'Create the account')
  await page.getByRole('heading', { name: 'Check your mail' }).waitFor()
  await page.goto(world.stack.baseUrl + (await linkIn(sink, 'Confirm your address', email)))
  await camera.take(page, 'confirm-address')
  await page.goto(at(world, '/reset-password'))
  await page.getByLabel('E-mail address').fill(addresses.viewer)
  await camera.take(page, 'reset-password')
  await press(page, 'Send the mail')
  await page.getByRole('heading', { name: 'Check your mail' }).waitFor()
  await page.goto(world.stack.baseUrl + (await linkIn(sink, 'A new password', addresses.viewer)))
  await camera.take(page, 'new-password')
}

/** Waits for a mail with this subject to an address. Returns the path of the link in this mail. */
async function linkIn(sink: SmtpSink, subject: string, email: string): Promise<string> {
  const found = () =>
    sink.deliveries.findLast((mail) => mail.recipients.includes(email) && mail.subject === subject)
  await until(subject, () => found() !== undefined)
  // The mail is quoted-printable, so long lines are broken and `=` is written as `=3D`.
  const text = (found()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
  const { pathname, search } = new URL(/http\S+token=\S+/.exec(text)?.[0] ?? '')
  return pathname + search
}
