import '../../contract/shape.ts'
