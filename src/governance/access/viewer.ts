import { list } from '../../policy/text.ts'
import type { Role } from '../../policy/types.ts'
import { DomainError, type DomainErrorCode } from '../errors.ts'

/** Who reads values. */
export interface Viewer {
  readonly userId: string
  readonly organizationId: string
  readonly role: Role
}

/** Stands in an answer in place of values that the viewer may not see. */
export interface ValuesHidden {
  /** Who sees the values, and why the viewer does not, without a full stop. */
  readonly reason: string
  /** Who can show them: addresses, roles and groups. */
  readonly ask: readonly string[]
}

/** `role` is the lowest one that sees the values. */
export function hiddenError(
  { reason, ask }: ValuesHidden,
  role: Role,
  code: DomainErrorCode = 'insufficient_role',
): DomainError {
  const whom = `ask ${list(ask, 'or')}`
  return new DomainError(code, `${reason}: ${whom}`, [{ path: role, message: whom }])
}
