import { test } from '@jest/globals'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { launchBrowser } from './browser.ts'

/**
 * A test in a real browser. The npm packages contain a browser only for Linux on x64, so the test is skipped on other
 * machines.
 */
export const inBrowser = process.platform === 'linux' && process.arch === 'x64' ? test : test.skip

/** The test files of a worker share one browser. It ends with the worker. */
let started: Promise<Browser> | undefined

export interface Visited {
  readonly page: Page
  /** Addresses that the page requested and whose origin is not the origin of the page. */
  readonly foreign: readonly string[]
  /** Errors on the console of the page, including refusals by its Content-Security-Policy. */
  readonly errors: readonly string[]
}

/** Opens a browser window of a new person who is not signed in. `options` are settings of the browser. */
export async function openPage(options: BrowserContextOptions = {}): Promise<Visited> {
  started ??= launchBrowser()
  const context = await (await started).newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const page = await context.newPage()
  // The limit in milliseconds. It is long, because a busy machine is several times slower than a free one.
  page.setDefaultTimeout(120_000)
  const [foreign, errors]: string[][] = [[], []]
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    const own = page.url().startsWith('http') ? new URL(page.url()).origin : origin
    if (protocol !== 'data:' && origin !== own) foreign?.push(request.url())
  })
  page.on('console', (message) => message.type() === 'error' && errors?.push(message.text()))
  page.on('pageerror', (error) => errors?.push(String(error)))
  return { page, foreign: foreign ?? [], errors: errors ?? [] }
}

/** Opens an address in a real browser, in a window of the given width. */
export async function visit(url: string, width: number): Promise<Visited> {
  const opened = await openPage({ viewport: { width, height: 900 } })
  await opened.page.goto(url)
  return opened
}
