import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { heldCall, signedInAt, violations } from './support.ts'

/* A person names a deputy on their account’s page, and the deputy decides on the approval’s page. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
  const { users, organization_id: id } = home.server.identities
  await home.call('owner', 'POST', `/organizations/${id}/groups`, {
    name: 'finance',
    members: [users.admin.user_id],
  })
  await home.call('owner', 'POST', `/organizations/${id}/groups`, { name: 'legal' })
  await home.hold({
    name: 'pushes wait',
    tools: ['Bash'],
    approver: { group: 'finance' },
    escalate: [{ after_seconds: 600, to: { group: 'legal' } }],
  })
})
afterAll(() => home?.server.close())

const phone = { viewport: { width: 390, height: 844 } }
/** For a field of the form, in UTC. */
const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 16)

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('a viewer decides for an admin who is away', async () => {
    const { users } = home.server.identities
    const id = await heldCall(home.server)
    const { page } = await signedInAt(home.server, 'admin', '/console/account', {
      ...phone,
      javaScriptEnabled,
    })
    const fill = async (deputy: string) => {
      await page.getByLabel('From (UTC)').fill(inHours(-1))
      await page.getByLabel('Until (UTC)').fill(inHours(24))
      await page.getByLabel('Your deputy’s mail address').fill(deputy)
      await page.locator('button[value=away]').click()
    }
    await fill('nobody@larkspur.example')
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Your deputy’s mail address').inputValue()).toBe('nobody@larkspur.example')
    await fill(users.viewer.email)
    await page.getByText('decides in your place').waitFor()
    if (javaScriptEnabled) expect(await violations(page)).toEqual([])

    const path = `/console/approvals/${id}`
    const { page: deputy } = await signedInAt(home.server, 'viewer', path, { ...phone, javaScriptEnabled })
    await deputy.getByText(`You decide for ${users.admin.email}`).waitFor()
    await deputy.getByText('is asked too').waitFor()
    if (javaScriptEnabled) expect(await violations(deputy)).toEqual([])
    expect(await deputy.getByRole('link', { name: 'Approvals', exact: true }).count()).toBeGreaterThan(0)
    await deputy.getByRole('button', { name: 'Approve', exact: true }).click()
    await deputy.getByText(`for ${users.admin.email}`).waitFor()

    await page.getByRole('button', { name: 'End it' }).click()
    await page.getByText('Say when you are away').waitFor()
  })
})
