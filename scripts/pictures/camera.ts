import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { shrink } from './shrink.ts'

/* Takes the pictures: each page on a phone and on a wide screen. */

const folder = fileURLToPath(new URL('../../docs/pictures/', import.meta.url))
/** Widths of pictures in CSS pixels. Each key is the end of the file's name. */
const widths = { phone: 360, wide: 1_280 } as const
/** The usual maximum heights of pictures in CSS pixels. */
const usual = { phone: 740, wide: 800 } as const
/** Maximum bytes of one picture, and of all pictures together. */
const limits = { one: 150_000, all: 6_000_000 }

export type Heights = Readonly<Partial<Record<keyof typeof widths, number>>>

export interface Camera {
  /** Opens a browser window of a person who is not signed in. */
  open(options?: BrowserContextOptions): Promise<Page>
  /**
   * Writes pictures of the open page: `NAME-phone.png` and `NAME-wide.png`. If the page is shorter than the maximum
   * height, the picture ends where the page ends.
   */
  take(page: Page, name: string, heights?: Heights): Promise<void>
  /** Throws if one picture is too large, or if all pictures together are too large. */
  check(): void
}

export function createCamera(browser: Browser, tell: (line: string) => void): Camera {
  const sizes = new Map<string, number>()
  return {
    async open(options = {}) {
      const context = await browser.newContext({
        viewport: { width: widths.phone, height: usual.phone },
        colorScheme: 'light',
        reducedMotion: 'reduce',
        locale: 'en-GB',
        timezoneId: 'UTC',
        ...options,
      })
      const page = await context.newPage()
      // The limit is two minutes, because a busy machine is several times slower than a free one.
      page.setDefaultTimeout(120_000)
      return page
    },
    async take(page, name, heights = {}) {
      for (const [end, width] of Object.entries(widths) as [keyof typeof widths, number][]) {
        await page.setViewportSize({ width, height: usual[end] })
        const most = heights[end] ?? usual[end]
        const height = Math.min(most, Number(await page.evaluate('Math.ceil(document.body.offsetHeight)')))
        await page.setViewportSize({ width, height })
        // An element with the focus would have a frame in the picture. The page may also have scrolled to this element.
        await page.evaluate('document.activeElement?.blur?.(), scrollTo(0, 0)')
        const file = `${name}-${end}.png`
        const png = shrink(await page.screenshot({ animations: 'disabled' }))
        writeFileSync(folder + file, png)
        sizes.set(file, png.length)
        tell(`${file}: ${width} x ${height}, ${Math.ceil(png.length / 1_000)} kB`)
      }
    },
    check() {
      const large = [...sizes].filter(([, size]) => size > limits.one).map(([file]) => file)
      const all = [...sizes.values()].reduce((sum, size) => sum + size, 0)
      if (large.length > 0)
        throw new Error(`larger than ${limits.one} bytes, so lower their heights: ${large.join(', ')}`)
      if (all > limits.all)
        throw new Error(`all pictures have ${all} bytes, and at most ${limits.all} are allowed`)
    },
  }
}
