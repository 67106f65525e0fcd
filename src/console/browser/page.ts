import { exactly, timeTitle, timeWords } from '../parts/time.tsx'
import { hydrate } from './islands.ts'

/*
 * The console's only script, bundled with what it imports. Every page works without it. The script loads the page again when something may have
 * changed, and replaces the parts whose version differs. The server renders every part.
 */

/** Selects the parts of the page that can change while the page is open. Each part has a name and a version. */
const part = '[data-live][data-version]'

/**
 * Without an event stream, the page is loaded again after this many milliseconds. After several failures, `longPause`
 * applies.
 */
const pause = 4_000
const longPause = 30_000

let isLoading = false
let isWanted = false
let failures = 0

/** Loads the page again, and replaces the changed parts. A call during a load causes one more load afterwards. */
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

function replaceParts(fresh: Document) {
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
  showChosen()
  hydrate()
}

/**
 * Copies the person's changes from the old part to the new part: unfolded details, written text and check marks.
 */
function keep(old: Element, found: Element) {
  for (const each of old.querySelectorAll('details[open]'))
    sameFold(each, old, found)?.toggleAttribute('open', true)
  for (const field of old.querySelectorAll('textarea, input[type=checkbox]')) {
    const same = field.id === '' ? null : found.querySelector(`#${CSS.escape(field.id)}`)
    if (field instanceof HTMLTextAreaElement && same !== null) same.textContent = field.value
    if (field instanceof HTMLInputElement && same !== null) same.toggleAttribute('checked', field.checked)
  }
}

/**
 * Returns the `details` element of the new part that corresponds to `each` in the old part. Both elements have the same
 * id. If `each` has no id, both have the same position.
 */
function sameFold(each: Element, old: Element, found: Element) {
  if (each.id !== '') return found.querySelector(`#${CSS.escape(each.id)}`)
  const nameless = 'details:not([id])'
  return found.querySelectorAll(nameless)[[...old.querySelectorAll(nameless)].indexOf(each)]
}

/** Events of a run that may change the pages of the run. */
const events = [
  ...['queued', 'awaiting_approval', 'started', 'paused', 'resumed', 'completed', 'failed', 'denied'].map(
    (each) => `run.${each}`,
  ),
  ...['rejected', 'expired', 'cancelled'].map((each) => `run.${each}`),
  ...['started', 'decided', 'held', 'completed', 'failed', 'denied', 'rejected', 'expired'].map(
    (each) => `step.${each}`,
  ),
  ...['skipped', 'cancelled', 'unknown_outcome'].map((each) => `step.${each}`),
  ...['created', 'voted', 'decided', 'reopened'].map((each) => `approval.${each}`),
]

/** If several events arrive within this many milliseconds, the page is loaded again only once. */
const gathering = 300

function openStream(): EventSource | null {
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

/** Removes the result of a form from the address, so that later loads of the page do not show the result again. */
function forgetResult() {
  const address = new URL(location.href)
  if (!address.searchParams.has('decided')) return
  for (const name of ['decided', 'decision']) address.searchParams.delete(name)
  history.replaceState(null, '', address)
}

/**
 * Follows the page's event stream. Without a stream, loads the page at intervals. A hidden page waits until it is
 * visible.
 */
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
    // After a load that failed, no further event may come.
    if (document.visibilityState === 'visible' && (stream === null || failures > 0)) await refresh()
    setTimeout(() => void look(), failures > 3 ? longPause : pause)
  }
  setTimeout(() => void look(), pause)
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') void refresh()
  })
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element &&
  target.closest('input:not([type=checkbox]), textarea, select, [contenteditable=true]') !== null

/** `/` and Ctrl+K lead to the search field that is seen; on a narrow screen, to the page that has one. */
document.addEventListener('keydown', (event) => {
  const { target, key, altKey } = event
  const isHeld = event.ctrlKey || event.metaKey
  if (isTyping(target) || altKey || (isHeld ? key !== 'k' : key !== '/')) return
  const fields = [...document.querySelectorAll<HTMLInputElement>('form[role=search] [name=q]')]
  const [any] = fields
  if (any === undefined) return
  event.preventDefault()
  const seen = fields.findLast((field) => field.checkVisibility())
  if (seen === undefined) location.assign(any.form?.action ?? '')
  else seen.select()
})

/** Keyboard shortcuts of the list and of an approval. They move the focus or open an approval, but never decide. */
document.addEventListener('keydown', (event) => {
  const { target, key } = event
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (isTyping(target)) return
  const items = [...document.querySelectorAll('.item-link')]
  const row = document.activeElement?.closest('.item, .plain-item, .row')
  const at = items.indexOf(row?.querySelector('.item-link') ?? document.body)
  if (key === 'j' || key === 'k') {
    const next = items[Math.max(0, Math.min(items.length - 1, at + (key === 'j' ? 1 : -1)))]
    if (next instanceof HTMLElement) next.focus()
  }
  if (key === 'a' || key === 'r') {
    const button = key === 'a' ? 'approve' : 'reject'
    const link = items[at]
    if (link instanceof HTMLAnchorElement && link.pathname.startsWith('/console/approvals/'))
      location.assign(`${link.href}#${button}`)
    else document.getElementById(button)?.focus()
  }
})

/**
 * Shows the number of chosen rows. If the rows cannot be approved together, shows a warning and disables the button for
 * approving.
 */
function showChosen() {
  const form = document.querySelector('.bulk')
  if (form === null) return
  const chosen = [...document.querySelectorAll('.choose input:checked')]
  const count = form.querySelector('[data-chosen]')
  if (count !== null) count.textContent = chosen.length === 0 ? '' : ` (${chosen.length} chosen)`
  const isMixed = new Set(chosen.map((each) => each.getAttribute('data-alike'))).size > 1
  form.querySelector('[data-mixed]')?.toggleAttribute('hidden', !isMixed)
  form.querySelector('[value=approve]')?.toggleAttribute('disabled', isMixed)
}

/** When the first row is chosen, the form unfolds. On a phone the form stays folded, because it would hide the rows. */
document.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement) || target.closest('.choose') === null) return
  const isFirst = target.checked && document.querySelectorAll('.choose input:checked').length === 1
  if (isFirst && matchMedia('(min-width: 48rem)').matches)
    document.querySelector('.bulk')?.toggleAttribute('open', true)
  showChosen()
})

/** A form is checked after this many milliseconds without a key. */
const resting = 700

/** Sends what is typed with the action `check`, and shows the answer in the part `check` of the form. */
async function checkForm(form: HTMLFormElement) {
  const fields = new URLSearchParams(
    [...new FormData(form)].flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
  fields.set('action', 'check')
  const answer = await fetch(form.getAttribute('action') ?? '', {
    method: 'POST',
    body: fields,
    redirect: 'error',
  })
  const found = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector(checkPart)
  const shown = form.querySelector(checkPart)
  if (found !== null && shown !== null) {
    shown.replaceWith(document.adoptNode(found))
    showTimes()
  }
}
const checkPart = '[data-live=check]'

let typed: ReturnType<typeof setTimeout> | undefined
/** One check at a time: the next begins when it has ended. */
let checking: Promise<unknown> = Promise.resolve()
document.addEventListener('input', ({ target }) => {
  const form = target instanceof Element ? target.closest('form') : null
  if (form === null || !form.hasAttribute('data-check')) return
  clearTimeout(typed)
  typed = setTimeout(() => {
    checking = checking.then(() => checkForm(form)).catch(() => null)
  }, resting)
})

for (const field of document.querySelectorAll('input[data-time-zone]'))
  field.setAttribute('value', Intl.DateTimeFormat().resolvedOptions().timeZone)

/** The time zone of the person's account; if it has none, that of this device. */
const zone =
  document.documentElement.getAttribute('data-zone') ?? Intl.DateTimeFormat().resolvedOptions().timeZone

/** Milliseconds by which this device's clock is ahead of the clock of the server that wrote the page. */
const ahead = Date.now() - (Date.parse(document.documentElement.getAttribute('data-now') ?? '') || Date.now())
const serverTime = () => Date.now() - ahead

/** Shows times in the reader's time zone, and updates the relative times. */
function showTimes() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const at = new Date(time.getAttribute('datetime') ?? '')
    if (Number.isNaN(at.getTime())) continue
    const between = at.getTime() - serverTime()
    const words = timeWords(between, time.hasAttribute('data-length'))
    time.setAttribute('title', timeTitle(at, zone))
    const date = exactly(at, zone)
    const text = time.hasAttribute('data-date')
      ? date
      : time.hasAttribute('data-exact')
        ? `${words} (${date})`
        : words
    if (time.textContent !== text) time.textContent = text
  }
}

/** Milliseconds between two updates of the times. */
const tick = 5_000

/**
 * Scrolls each picture to the box that needs attention first. Boxes that wait come first. Next are boxes with an
 * unknown outcome, boxes that run, and boxes that failed.
 */
function showOpenBox() {
  for (const picture of document.querySelectorAll('.picture')) {
    const box = ['hold', 'warn', 'go', 'bad']
      .map((tone) => picture.querySelector(`.box.${tone}`))
      .find((each) => each !== null)
    if (!box) continue
    const [frame, at] = [picture.getBoundingClientRect(), box.getBoundingClientRect()]
    picture.scrollBy({
      left: at.left + at.width / 2 - (frame.left + frame.width / 2),
      top: at.top + at.height / 2 - (frame.top + frame.height / 2),
    })
  }
}

const sent = document.querySelector('form[data-send]')
if (sent instanceof HTMLFormElement) sent.requestSubmit()

hydrate()
showOpenBox()
showTimes()
showChosen()
setInterval(showTimes, tick)

if (/^#(approve|reject)$/.test(location.hash)) document.getElementById(location.hash.slice(1))?.focus()
forgetResult()
follow()
