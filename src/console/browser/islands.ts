import { h, hydrate as attach, type FunctionComponent } from 'preact'
import { Copy } from '../parts/copy.tsx'
import { PasskeyAdd, PasskeySignIn } from '../parts/passkey.tsx'
import { ScopeChoice } from '../parts/scope-choice.tsx'

/** By the name in the page. The server renders the same components (parts/island.tsx). */
const islands: Readonly<Record<string, FunctionComponent<never>>> = {
  Copy,
  PasskeyAdd,
  PasskeySignIn,
  ScopeChoice,
}

/** Brings the islands of the page to life, also those of a part that was just replaced. */
export function hydrate(): void {
  for (const place of document.querySelectorAll('[data-island]')) {
    const island = islands[place.getAttribute('data-island') ?? '']
    const props = JSON.parse(place.getAttribute('data-props') ?? '{}') as never
    place.removeAttribute('data-island')
    if (island !== undefined) attach(h(island, props), place)
  }
}
