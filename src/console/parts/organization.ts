import { h, type ComponentChild } from 'preact'
import { Words } from './words.ts'

/**
 * Shows the name of the organization whose data a page shows. The word `Organization` stands before the name, because
 * the name alone could look like the product's name.
 */
export const OrganizationName = ({ name }: { readonly name: string }): ComponentChild => [
  'Organization: ',
  h(Words, { text: name }),
]
