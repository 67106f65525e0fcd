import { afterAll } from '@jest/globals'
import chromium from '@sparticuz/chromium'
import { chromium as playwright, type Browser, type Page } from 'playwright-core'

/** The packages carry a browser for Linux on x64 alone. */
export const hasChromium = process.platform === 'linux' && process.arch === 'x64'

let started: Promise<Browser> | undefined
afterAll(async () => (await started)?.close())

export interface Visited {
  readonly page: Page
  /** Addresses of other hosts that the page asked for. */
  readonly foreign: readonly string[]
  /** Errors of its console, refusals by its Content-Security-Policy among them. */
  readonly errors: readonly string[]
}

/** Opens an address in a real browser, in a window of this width. */
export async function visit(url: string, width: number): Promise<Visited> {
  started ??= chromium
    .executablePath()
    .then((executablePath) => playwright.launch({ executablePath, args: ['--no-sandbox'] }))
  const page = await (await started).newPage({ viewport: { width, height: 900 } })
  // A loaded machine is several times slower than a free one.
  page.setDefaultTimeout(120_000)
  const [foreign, errors]: string[][] = [[], []]
  const { origin } = new URL(url)
  page.on('request', (request) => {
    const { protocol, origin: asked } = new URL(request.url())
    if (protocol !== 'data:' && asked !== origin) foreign?.push(request.url())
  })
  page.on('console', (message) => message.type() === 'error' && errors?.push(message.text()))
  page.on('pageerror', (error) => errors?.push(String(error)))
  await page.goto(url)
  return { page, foreign: foreign ?? [], errors: errors ?? [] }
}
