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
    const open = [...old.querySelectorAll('details')].map((each) => each.open)
    found.querySelectorAll('details').forEach((each, index) => {
      if (open[index] === true) each.open = true
    })
    old.replaceWith(document.adoptNode(found))
  }
}

/** Follows the page's event stream, or looks again now and then. A hidden page waits until it is seen. */
function follow() {
  const first = document.querySelector(part)
  if (first === null) return
  const stream = document.querySelector('[data-events]')?.getAttribute('data-events')
  if (stream) {
    const events = new EventSource(stream)
    for (const type of (
      document.querySelector('[data-events]')?.getAttribute('data-event-types') ?? ''
    ).split(' '))
      events.addEventListener(type, () => void refresh())
  }
  const look = () => {
    if (document.visibilityState === 'visible' && document.querySelector('[data-poll]') !== null)
      void refresh()
    setTimeout(look, failures > 3 ? longPause : pause)
  }
  setTimeout(look, pause)
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') void refresh()
  })
}

follow()
