import '../../test/support.ts'
