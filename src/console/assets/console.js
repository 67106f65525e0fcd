// @ts-check

/*
 * The console's only script. Every page works without it. It loads the page again when something may have happened, and
 * replaces the parts whose version has changed; the server renders them all.
 */

/** Parts of a page that change while it is open: their name, and the version of what they show. */
const part = '[data-live][data-version]'

/** Milliseconds between two looks where no event stream tells of changes, and after several failures. */
const pause = 4_000
const longPause = 30_000

let isLoading = false
let isWanted = false
let failures = 0

/** Loads the page again, and replaces what has changed. Calls that come meanwhile are answered by one more load. */
async function refresh() {
  if (isLoading) {
    isWanted = true
    return
  }
  isLoading = true
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, redirect: 'error' })
    if (!answer.ok) throw new Error(`status ${answer.status}`)
    replaceParts(new DOMParser().parseFromString(await answer.text(), 'text/html'))
    failures = 0
  } catch {
    failures += 1
  } finally {
    isLoading = false
  }
  if (isWanted) {
    isWanted = false
    await refresh()
  }
}

/** @param {Document} fresh */
function replaceParts(fresh) {
  for (const old of document.querySelectorAll(part)) {
    const name = old.getAttribute('data-live') ?? ''
    const found = fresh.querySelector(`[data-live="${CSS.escape(name)}"]`)
    if (found === null || found.getAttribute('data-version') === old.getAttribute('data-version')) continue
    keep(old, found)
    const focused = document.activeElement?.id ?? ''
    const scrolled = [...old.querySelectorAll('[data-scroll]')].map((each) => [
      each.scrollLeft,
      each.scrollTop,
    ])
    old.replaceWith(document.adoptNode(found))
    found
      .querySelectorAll('[data-scroll]')
      .forEach((each, index) =>
        each.scrollTo({ left: scrolled[index]?.[0] ?? 0, top: scrolled[index]?.[1] ?? 0 }),
      )
    if (focused !== '') document.getElementById(focused)?.focus({ preventScroll: true })
  }
  showTimes()
}

/**
 * What the person has opened, written and chosen stays.
 * @param {Element} old
 * @param {Element} found
 */
function keep(old, found) {
  const open = [...old.querySelectorAll('details')].map((each) => each.open)
  found.querySelectorAll('details').forEach((each, index) => {
    if (open[index] === true) each.open = true
  })
  for (const field of old.querySelectorAll('textarea, input[type=checkbox]')) {
    const same = field.id === '' ? null : found.querySelector(`#${CSS.escape(field.id)}`)
    if (field instanceof HTMLTextAreaElement && same !== null) same.textContent = field.value
    if (field instanceof HTMLInputElement && same !== null) same.toggleAttribute('checked', field.checked)
  }
}

/** Events of a run after which its pages may show something else. */
const events = [
  ...['queued', 'awaiting_approval', 'started', 'paused', 'resumed', 'completed', 'failed', 'denied'].map(
    (each) => `run.${each}`,
  ),
  ...['rejected', 'expired', 'cancelled'].map((each) => `run.${each}`),
  ...['started', 'decided', 'held', 'completed', 'failed', 'denied', 'rejected', 'expired'].map(
    (each) => `step.${each}`,
  ),
  ...['skipped', 'cancelled', 'unknown_outcome'].map((each) => `step.${each}`),
  'approval.created',
  'approval.decided',
]

/** Milliseconds in which several events lead to one look. */
const gathering = 300

/** @returns {EventSource | null} */
function openStream() {
  const address = document.querySelector('[data-events]')?.getAttribute('data-events')
  if (!address) return null
  const stream = new EventSource(address)
  let isDue = false
  const soon = () => {
    if (isDue) return
    isDue = true
    setTimeout(() => {
      isDue = false
      void refresh()
    }, gathering)
  }
  for (const type of events) stream.addEventListener(type, soon)
  return stream
}

/** Follows the page's event stream, or looks again now and then. A hidden page waits until it is seen. */
function follow() {
  if (document.querySelector('[data-poll]') === null) return
  let stream = openStream()
  const look = async () => {
    const isOpen = document.querySelector('[data-poll]') !== null
    if (!isOpen) {
      stream?.close()
      return
    }
    if (stream?.readyState === EventSource.CLOSED) stream = null
    if (document.visibilityState === 'visible' && stream === null) await refresh()
    setTimeout(() => void look(), failures > 3 ? longPause : pause)
  }
  setTimeout(() => void look(), pause)
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') void refresh()
  })
}

/** Keys of the list and of an approval. They move the focus; nothing is decided without pressing a button. */
document.addEventListener('keydown', (event) => {
  const { target, key } = event
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (target instanceof Element && target.closest('input:not([type=checkbox]), textarea, select') !== null)
    return
  const items = [...document.querySelectorAll('.item-link')]
  const at = items.indexOf(
    document.activeElement?.closest('.item')?.querySelector('.item-link') ?? document.body,
  )
  if (key === 'j' || key === 'k') {
    const next = items[Math.max(0, Math.min(items.length - 1, at + (key === 'j' ? 1 : -1)))]
    if (next instanceof HTMLElement) next.focus()
  }
  if (key === 'a' || key === 'r') {
    const button = key === 'a' ? 'approve' : 'reject'
    const link = items[at]
    if (link instanceof HTMLAnchorElement) location.assign(`${link.href}#${button}`)
    else document.getElementById(button)?.focus()
  }
})

const dates = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
const relative = new Intl.RelativeTimeFormat('en')

/** @type {readonly (readonly [Intl.RelativeTimeFormatUnit, number])[]} */
const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

/**
 * The words that the server writes, as of now.
 * @param {number} milliseconds
 */
function relativeWords(milliseconds) {
  const seconds = Math.round(milliseconds / 1_000)
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1]
  // A time that is just over is "0 seconds ago".
  return relative.format(Math.trunc(seconds / size) || -0, unit)
}

/** How far this device's clock is ahead of the server's, which wrote the page. */
const ahead = Date.now() - (Date.parse(document.documentElement.getAttribute('data-now') ?? '') || Date.now())
const serverTime = () => Date.now() - ahead

/** Times in the reader's time zone, with words that stay true. */
function showTimes() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const at = Date.parse(time.getAttribute('datetime') ?? '')
    if (Number.isNaN(at)) continue
    const words = relativeWords(at - serverTime())
    const date = dates.format(at)
    time.setAttribute('title', date)
    const text = time.hasAttribute('data-exact') ? `${words} (${date})` : words
    if (time.textContent !== text) time.textContent = text
  }
}

/** Milliseconds between two showings of the times. */
const tick = 5_000

showTimes()
setInterval(showTimes, tick)

if (/^#(approve|reject)$/.test(location.hash)) document.getElementById(location.hash.slice(1))?.focus()
follow()
