import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createDocuments } from '../../src/api/console/documents.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { signedInAt, violations } from './support.ts'

/* `/console/docs`: the guides and the reference of the API, with the reader's own organization in their examples. */

let home: PagesHome
beforeAll(async () => {
  home = await startPages()
})
afterAll(() => home?.server.close())

const path = '/console/docs'
const { shelves, operations } = createDocuments()
const documents = shelves.flatMap((shelf) => shelf.documents.map(({ name }) => `${path}/${name}`))
const areas = [...new Set(operations.map(({ area }) => area))].map(
  (area) => `${path}/api/${area.toLowerCase().replaceAll(' ', '-')}`,
)
const all = [path, ...documents, ...areas]

test('the shelves have every document for users, and none for those who work on the service', () => {
  expect(shelves.map(({ title }) => title)).toEqual(['Run workflows', 'Guard agents', 'Operate', 'Reference'])
  expect(documents).toEqual(expect.arrayContaining([`${path}/tutorial`, `${path}/reference/quotas`]))
  expect(documents.filter((each) => /performance|decisions|contributing|README$/.test(each))).toEqual([
    `${path}/reference/README`,
  ])
})

test('each link of a document leads to one that is served, and to a heading that it has', async () => {
  const pages = new Map<string, string>()
  for (const place of all) pages.set(place, await home.main(place, 'viewer'))
  const broken = []
  for (const [place, html] of pages)
    for (const [, href = ''] of html.matchAll(/href="([^"]*)"/g)) {
      const { pathname, hash, origin } = new URL(href.replaceAll('&amp;', '&'), `http://own${place}`)
      if (origin !== 'http://own') continue
      const target = pages.get(pathname)
      if (
        pathname.startsWith(path) &&
        target?.includes(`id="${hash.slice(1)}"`) !== true &&
        (hash !== '' || target === undefined)
      )
        // prettier-ignore
        broken.push(`${place}: ${href}`)
    }
  expect(broken).toEqual([])
})

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser('a viewer finds a guide by a word of its titles, and goes on to the API', async () => {
    const phone = { viewport: { width: 390, height: 844 }, javaScriptEnabled }
    const { page, foreign, errors } = await signedInAt(home.server, 'viewer', path, phone)
    await page.getByRole('textbox', { name: 'Words of a title' }).fill('rules that label')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('link', { name: 'Rules that label', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Rules' }).waitFor()
    expect(new URL(page.url()).hash).toBe('#rules-that-label')
    await page.getByRole('link', { name: 'All documents' }).click()
    await page.getByRole('link', { name: 'Service accounts' }).last().click()
    await page.getByRole('heading', { level: 1, name: 'API: Service accounts' }).waitFor()
    const own = `/api/v1/organizations/${home.server.identities.organization_id}`
    expect(await page.locator('pre').first().textContent()).toContain(own)
    expect([foreign, errors]).toEqual([[], []])
  })
})

inBrowser('no document is wider than a phone, nor has a violation that axe finds', async () => {
  const { page } = await signedInAt(home.server, 'member', path, { viewport: { width: 360, height: 740 } })
  const wrong = []
  for (const place of all) {
    await page.goto(`${home.server.base}${place}`)
    const wide = await page.evaluate('document.documentElement.scrollWidth')
    const found = await violations(page)
    if (wide !== 360 || found.length > 0) wrong.push([place, wide, found])
  }
  expect(wrong).toEqual([])
})

test('no example has a key, and HTML of a document is left out', async () => {
  const text = await home.main(`${path}/tutorial`, 'owner')
  expect(text).toContain(home.server.identities.organization_id)
  const keys = Object.values(home.server.identities.users).map(({ api_key: key }) => key)
  expect(keys.filter((key) => text.includes(key))).toEqual([])
  expect(text).not.toMatch(/<(script|img|style)/)
  expect((await home.get(`${path}/decisions`)).status).toBe(404)
  expect((await home.get(`${path}/..%2fREADME`)).status).toBe(404)
  expect(plain(await home.main(`${path}?search=nothing-has-this`))).toContain('No title has these words')
})
