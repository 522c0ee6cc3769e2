/* For fold.h, which asks for it in the shape of cl.exe: shape.h has what it would bring. */
