import { InvalidArgumentError, type Command } from 'commander'
import { accessOf } from './credentials.ts'
import { createApi, type Api } from './http.ts'

/** Every command that prints something has it. */
export interface Shared {
  readonly json?: true
}

/** A command with `--json`. `usage` is its name and its arguments. */
export const command = (parent: Command, usage: string, description: string): Command =>
  parent.command(usage).description(description).option('--json', 'print JSON')

export const apiOf = (): Api => createApi(accessOf())

/** Collects an option that can be repeated. */
export const listed = (value: string, before: readonly string[]): readonly string[] => [...before, value]

export function positive(text: string): number {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('Write a whole number.')
  return number
}

/** The one that the key belongs to. */
export const organizationOf = async (api: Api): Promise<string> => (await api.call('GET /me')).organization_id
